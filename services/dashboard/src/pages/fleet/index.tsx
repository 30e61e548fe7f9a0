import { Empty, Page } from "../../ui";

export default function Fleet() {
  return (
    <Page title="Fleet">
      <Empty title="Not here yet" />
    </Page>
  );
}
