import { useState } from "preact/hooks";
import { api } from "../../api";
import { store } from "../../live/store";
import { ActionButton, AskReason, toast, useCluster } from "../../ui";
import type { CampaignView } from "../../wire";
import { type Ask, actionsFor } from "./words";

interface Asked {
  title: string;
  verb: string;
  about: string;
  told: string;
}

const ASKED: Readonly<Record<Ask, Asked>> = {
  pause: {
    title: "Pause this campaign?",
    verb: "Pause it",
    about:
      "No further nodes are upgraded, and nodes that wait for jobs become schedulable. Upgrades that have started are completed.",
    told: "Pause requested.",
  },
  resume: {
    title: "Resume this campaign?",
    verb: "Go on",
    about: "The campaign continues with the next nodes. Failed nodes are retried.",
    told: "Resume requested.",
  },
  abort: {
    title: "Abort this campaign?",
    verb: "Abort it",
    about:
      "No further nodes are upgraded, and the campaign cannot be resumed. Upgrades that have started are completed.",
    told: "Abort requested.",
  },
};

/** What may be asked of a campaign; what may not is shown with the reason. */
export function Actions({ campaign, onChange }: { campaign: CampaignView; onChange: () => void }) {
  const [asked, setAsked] = useState<Ask | "">("");
  const cluster = useCluster();
  const said = asked && ASKED[asked];
  return (
    <>
      {actionsFor(campaign, store.me.value).map(({ name, title, why }) => (
        <ActionButton key={name} title={title} why={why} danger={name === "abort"} onAsk={() => setAsked(name)} />
      ))}
      {said && (
        <AskReason
          title={said.title}
          verb={said.verb}
          danger={asked === "abort"}
          onClose={() => setAsked("")}
          ask={async (reason) => {
            const why = reason && `?reason=${encodeURIComponent(reason)}`;
            await api.post(cluster.asked(`/v1/campaigns/${encodeURIComponent(campaign.name)}/${asked}${why}`));
            toast(said.told);
            onChange();
          }}
        >
          <p>{said.about}</p>
        </AskReason>
      )}
    </>
  );
}
