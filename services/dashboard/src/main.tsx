import "./style.css";
import { render } from "preact";
import { App } from "./app";
import { live } from "./live/connection";
import { followAddress } from "./route";
import { takeTokenFromAddress } from "./session";
import { followTheme } from "./theme";
import { followKeys } from "./ui/keys";

const root = document.getElementById("app");
if (root) {
  takeTokenFromAddress();
  followTheme();
  followAddress();
  followKeys();
  render(<App />, root);
  live.start();
}
