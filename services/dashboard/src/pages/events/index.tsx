import { Empty, Page } from "../../ui";

export default function Events() {
  return (
    <Page title="Events">
      <Empty title="Not here yet" />
    </Page>
  );
}
