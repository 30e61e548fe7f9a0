import { Dialog } from "../ui";
import { hotkeys } from "../ui/keys";

/** All keys that work now. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <table class="keys">
        <tbody>
          {hotkeys.value.map(({ keys, does }) => (
            <tr key={keys}>
              <th scope="row">
                {keys.split(" ").map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </th>
              <td>{does}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
