//go:build whole

package main

import (
	"os"

	"k8s.io/component-base/cli"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func init() {
	programs["kube-controller-manager"] = func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) }
}
