import { Empty, Page } from "../../ui";

export default function Scale() {
  return (
    <Page title="Scale">
      <Empty title="Not here yet" />
    </Page>
  );
}
