// Search from the disk. A browser starts no worker of a page that was opened from a file, so the search runs in a hidden
// frame of the page. The plugin `offline` of Material for MkDocs loads a script of this name before all others.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      // What the worker's script posts goes to the page, not to the frame itself.
      this.frame.srcdoc =
        "<script>window.postMessage = (data) => frameElement.answer(data)</script>" +
        `<script src="${encodeURI(decodeURI(url))}"></script>`;
      this.loaded = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
