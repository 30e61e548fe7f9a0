import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, asProblem } from "../api";
import { store } from "../live/store";
import { logIn, offeredToken } from "../session";
import { Dialog } from "../ui";
import type { Me } from "../wire";

/** Asks whether the token of a link shall replace the session, and says whose it is. */
export function OfferedToken({ offered }: { offered: string }) {
  const owner = useSignal<Me | null>(null);
  const wrong = useSignal("");
  useEffect(() => {
    const left = new AbortController();
    api
      .get<Me>("/v1/me", { as: offered, signal: left.signal })
      .then((me) => {
        owner.value = me;
      })
      .catch((error: unknown) => {
        if (!left.signal.aborted) {
          const problem = asProblem(error);
          wrong.value = problem.status === 401 ? "The token of this link is invalid." : problem.message;
        }
      });
    return () => left.abort();
  }, [offered]);
  const stay = (): void => {
    offeredToken.value = "";
  };
  const change = (): void => {
    logIn(offered, { remember: false });
    location.reload(); // nothing that was read as somebody else stays on the page
  };
  return (
    <Dialog
      title="Log in as another user?"
      onClose={stay}
      actions={
        <>
          <button type="button" class="button button-main" onClick={stay}>
            Stay {store.me.value ? `as ${store.me.value.principal}` : "logged in"}
          </button>
          {owner.value && (
            <button type="button" class="button" onClick={change}>
              Log in as {owner.value.principal}
            </button>
          )}
        </>
      }
    >
      <p>The link that opened this page has another API token. If you did not request it, stay logged in.</p>
      {owner.value && (
        <p>
          It belongs to <strong>{owner.value.principal}</strong>, {owner.value.role}
          {owner.value.teams.length > 0 && ` of ${owner.value.teams.join(", ")}`}. What you submit and see would be
          theirs.
        </p>
      )}
      {!owner.value && !wrong.value && <p class="muted">Looking up the owner of the token …</p>}
      {wrong.value && (
        <p class="note note-bad" role="alert">
          {wrong.value}
        </p>
      )}
    </Dialog>
  );
}
