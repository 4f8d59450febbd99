// Command kubectl is kubectl of another time: upstream's command, unmodified, of
// the version that the module file asks for (see build.sh).
//
// It is a module of its own, so that kubectl's dependencies stay out of the
// product's.
package main

import (
	_ "k8s.io/client-go/plugin/pkg/client/auth" // as upstream's kubectl links it
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
