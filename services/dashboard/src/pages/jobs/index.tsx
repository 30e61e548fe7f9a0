import { Empty, Page } from "../../ui";

export default function Jobs() {
  return (
    <Page title="Jobs">
      <Empty title="Not here yet" />
    </Page>
  );
}
