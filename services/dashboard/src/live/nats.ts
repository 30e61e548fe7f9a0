/** The part of the NATS client that is used, loaded when somebody is logged in. */

import { jwtAuthenticator, type NatsConnection, type Subscription, wsconnect } from "@nats-io/nats-core";
import type { LiveCredential } from "../wire";

const CONNECT_TIMEOUT_MS = 5_000;
const PING_EVERY_MS = 10_000;

export type { NatsConnection, Subscription };

/** One connection with one credential. It never reconnects by itself: the next one needs a new credential. */
export function connect(credential: LiveCredential): Promise<NatsConnection> {
  return wsconnect({
    servers: credential.url,
    authenticator: jwtAuthenticator(credential.jwt, new TextEncoder().encode(credential.seed)),
    inboxPrefix: credential.inbox_prefix,
    name: "dashboard",
    reconnect: false,
    timeout: CONNECT_TIMEOUT_MS,
    pingInterval: PING_EVERY_MS,
    maxPingOut: 2,
    ignoreClusterUpdates: true,
  });
}
