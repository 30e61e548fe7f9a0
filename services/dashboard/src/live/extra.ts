/** Subjects that a page listens to beside the slices, over whatever connection stands. */

import type { NatsConnection, Subscription } from "./nats";

export type Decode = (body: Uint8Array) => void;

interface Listened {
  listeners: Set<Decode>;
  subscription: Subscription | null;
}

export class Extras {
  #subjects = new Map<string, Listened>();
  #connection: NatsConnection | null = null;
  readonly #deliver: (bytes: number, work: () => void) => void;

  /** deliver: how a message of so many bytes is worked on. */
  constructor(deliver: (bytes: number, work: () => void) => void) {
    this.#deliver = deliver;
  }

  /** Listen until the returned function is called, also over connections to come. */
  listen(subject: string, decode: Decode): () => void {
    const listened = this.#subjects.get(subject) ?? { listeners: new Set<Decode>(), subscription: null };
    this.#subjects.set(subject, listened);
    listened.listeners.add(decode);
    this.#subscribe(subject, listened);
    return () => {
      listened.listeners.delete(decode);
      if (listened.listeners.size === 0 && this.#subjects.get(subject) === listened) {
        this.#subjects.delete(subject);
        listened.subscription?.unsubscribe();
      }
    };
  }

  /** From now on over this connection; null: over none. What the one before subscribed ends with it. */
  use(connection: NatsConnection | null): void {
    this.#connection = connection;
    for (const [subject, listened] of this.#subjects) {
      listened.subscription = null;
      this.#subscribe(subject, listened);
    }
  }

  #subscribe(subject: string, listened: Listened): void {
    if (!this.#connection || listened.subscription) {
      return;
    }
    listened.subscription = this.#connection.subscribe(subject, {
      callback: (error, message) => {
        if (!error) {
          // refused to who may not listen: then nothing comes, and the page has said why
          this.#deliver(message.data.length, () => {
            for (const decode of listened.listeners) {
              decode(message.data);
            }
          });
        }
      },
    });
  }
}
