// What the shell makes of texts: of the command's result, of what is pasted, and of output that comes too fast.

import { plain } from "./words.js";

const MOST_WAITING = 1 << 20;
const MOST_PASTED = 64 * 1024;

/** Why a command ended, in words: the result channel's metav1.Status. */
export function ending(text) {
  let status = null;
  try { status = JSON.parse(text); } catch { return "The shell has ended: its result cannot be read."; }
  if (status?.status === "Success") return "The shell has ended with exit code 0.";
  const causes = Array.isArray(status?.details?.causes) ? status.details.causes : [];
  const code = causes.find((each) => each?.reason === "ExitCode" && /^\d{1,9}$/.test(each.message))?.message;
  if (status?.reason === "NonZeroExitCode" && code) return `The shell has ended with exit code ${code}.`;
  return plain(`There is no shell: ${typeof status?.message === "string" ? status.message.slice(0, 500) : "the command could not be run"}.`);
}

/** What is pasted: without control characters, which could end a bracketed paste; null if it is too long. */
export function pasted(text) {
  return text.length > MOST_PASTED ? null : text.replace(/[^\P{Cc}\t\n\r]/gu, "");
}

/** Passes output on to a terminal that is slower than the container: beyond 1 MiB it is left out, and counted. */
export class Output {
  waiting = 0;
  lost = 0;

  constructor(terminal) { this.terminal = terminal; }

  take(bytes) {
    if (this.waiting + bytes.length > MOST_WAITING) {
      this.lost += bytes.length;
      return;
    }
    this.waiting += bytes.length;
    this.terminal.write(bytes, () => {
      this.waiting -= bytes.length;
      if (this.lost && !this.waiting) {
        this.terminal.write(`\r\n[${this.lost} bytes that came too fast are left out]\r\n`);
        this.lost = 0;
      }
    });
  }
}

/** Let a terminal say nothing by itself, and change nothing but its screen. */
export function silence(terminal) {
  const core = terminal._core.coreService, send = core.triggerDataEvent.bind(core);
  core.triggerDataEvent = (data, isTyped) => { if (isTyped) send(data, isTyped); }; // no reports: a pod could type by them
  for (const code of [0, 1, 2, 7, 8, 9, 52, 633, 777, 1337]) terminal.parser.registerOscHandler(code, () => true); // titles, links, the clipboard
}
