// A Worker for pages that are opened as files, where browsers refuse real ones: the script runs in a hidden frame.
// The search of the site needs it; pages that a server delivers keep the browser's own Worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      const base = new URL(url, document.baseURI);
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const run = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          Object.assign(script, { src: new URL(source, base), onload: resolve, onerror: reject });
          inside.document.head.append(script);
        });
      inside.importScripts = (...sources) => sources.reduce((before, one) => before.then(() => run(one)), Promise.resolve());
      this.inside = inside;
      this.ready = run(base);
    }

    postMessage(data) {
      this.ready = this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    terminate() {
      this.inside.frameElement?.remove();
    }
  };
}
