// A second scheduler as clusters ran it before DRA: kube-scheduler with one plugin that reads a NodeResourceTopology
// object per node. It exists to be measured against, not to be used.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(pluginName, newPlugin))))
}
