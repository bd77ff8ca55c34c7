# a3c-zoo with the CPU build of torch, and its trained agents.
#
#   docker build -t a3c-zoo .
#   docker run --rm --shm-size=1g a3c-zoo                                     # trains CartPole
#   docker run --rm -it a3c-zoo play pong --terminal
#   docker run --rm --shm-size=1g --user "$(id -u):$(id -g)" -v "$PWD:/zoo" a3c-zoo train pong
#
# --shm-size: workers share parameters and samples in /dev/shm, of which Docker gives a container 64 MB.
FROM python:3.13-slim

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    MPLCONFIGDIR=/tmp/matplotlib

RUN useradd --create-home --uid 1000 zoo \
    && mkdir /zoo \
    && chown zoo /zoo

WORKDIR /opt/a3c-zoo

# The layers that take long change only with the versions of what a3c-zoo needs.
COPY constraints.txt pyproject.toml ./
RUN pip install --index-url https://download.pytorch.org/whl/cpu \
        "torch==$(sed -n 's/^torch==//p' constraints.txt)"
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
        print(*project['dependencies'], *project['optional-dependencies']['play'], sep='\n')" > /tmp/needed.txt \
    && pip install -c constraints.txt -r /tmp/needed.txt \
    && rm /tmp/needed.txt

COPY LICENSE README.md ./
COPY a3c_zoo a3c_zoo
COPY envs envs
COPY hyperparams hyperparams
COPY plugins/a3c-zoo-trained plugins/a3c-zoo-trained
RUN pip install -c constraints.txt '.[play]' ./plugins/a3c-zoo-trained

USER zoo
WORKDIR /zoo
ENTRYPOINT ["a3c-zoo"]
CMD ["train", "cartpole"]
