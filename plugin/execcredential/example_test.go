package execcredential_test

import (
	"fmt"
	"log"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
)

// kubectl puts its request into an environment variable of the plugin.
func ExampleRead() {
	request, err := execcredential.Read(`{
		"kind": "ExecCredential",
		"apiVersion": "client.authentication.k8s.io/v1",
		"spec": {"interactive": true, "cluster": {"server": "https://prod.example:6443"}}
	}`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(request.APIVersion, request.Interactive, request.Cluster.Server)
	// Output: client.authentication.k8s.io/v1 true https://prod.example:6443
}
