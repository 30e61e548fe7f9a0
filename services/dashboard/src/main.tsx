import "./style.css";
import { render } from "preact";
import { App } from "./app";
import { live } from "./live/connection";
import { pageOf } from "./pages";
import { followAddress, path } from "./route";
import { takeTokenFromAddress, token } from "./session";
import { followTheme } from "./theme";
import { followKeys } from "./ui/keys";

const root = document.getElementById("app");
if (root) {
  takeTokenFromAddress();
  addEventListener("hashchange", takeTokenFromAddress); // a link to this page, opened in its tab
  followTheme();
  followAddress();
  followKeys();
  beginLoading();
  render(<App />, root);
  live.start();
}

/** What will be needed at once is asked for before the first drawing; who needs it tells if it does not come. */
function beginLoading(): void {
  if (token.peek()) {
    const parts = [import("./live/nats"), pageOf(path.peek())?.load()];
    void Promise.allSettled(parts);
  }
}
