/** Which cells are to be drawn: each once, in the order in which they changed. Fixed memory. */

export class DirtySet {
  private readonly flags: Uint8Array;
  private readonly queue: Uint32Array;
  private head = 0;
  size = 0;

  constructor(capacity: number) {
    this.flags = new Uint8Array(capacity);
    this.queue = new Uint32Array(Math.max(1, capacity));
  }

  add(cell: number): void {
    if (this.flags[cell] === 0) {
      this.flags[cell] = 1;
      this.queue[(this.head + this.size) % this.queue.length] = cell;
      this.size++;
    }
  }

  /** The one that waits longest; -1 if none does. */
  take(): number {
    if (this.size === 0) {
      return -1;
    }
    const cell = this.queue[this.head] as number;
    this.head = (this.head + 1) % this.queue.length;
    this.size--;
    this.flags[cell] = 0;
    return cell;
  }

  clear(): void {
    this.flags.fill(0);
    this.head = 0;
    this.size = 0;
  }
}
