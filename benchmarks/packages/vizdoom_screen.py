"""Of ViZDoom's observations, only the screen: grey, 60 × 80 pixels."""

import cv2
import gymnasium
import numpy as np


def small_screen(env):
    space = gymnasium.spaces.Box(0, 255, (60, 80, 1), np.uint8)

    def shrink(observation):
        grey = cv2.cvtColor(observation["screen"], cv2.COLOR_RGB2GRAY)
        return cv2.resize(grey, (80, 60), interpolation=cv2.INTER_AREA)[..., None]

    return gymnasium.wrappers.TransformObservation(env, shrink, space)
