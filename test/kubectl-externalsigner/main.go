// Command kubectl-externalsigner is kubectl with the auth provider
// externalSigner built in: upstream's command, unmodified, and one import more.
// The tests run it; `make kubectl-externalsigner` builds it for people who want
// it, and it shows how to give the provider to another client.
//
// It is a module of its own, so that kubectl's dependencies stay out of the
// product's.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // as upstream's kubectl links it
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	_ "github.com/kubehsm/kubehsm/plugin/externalsigner/provider/auto"
)

func main() {
	// An unparsable verbosity is reported by the command's own flag parsing.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
