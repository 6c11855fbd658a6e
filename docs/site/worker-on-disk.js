// A browser starts no workers for a page that was opened from the disk: there the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.early = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.inside = this.frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = this.inside.document.createElement("script")
      script.src = url
      script.onload = () => {
        const early = this.early
        this.early = null
        early.forEach(data => this.postMessage(data))
      }
      this.inside.document.body.append(script)
    }
    postMessage(data) {
      if (this.early) this.early.push(data)
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
