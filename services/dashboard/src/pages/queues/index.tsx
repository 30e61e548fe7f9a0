import { Empty, Page } from "../../ui";

export default function Queues() {
  return (
    <Page title="Queues">
      <Empty title="Not here yet" />
    </Page>
  );
}
