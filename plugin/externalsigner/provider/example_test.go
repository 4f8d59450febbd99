package provider_test

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/provider"
)

// A controller, or any other client, whose kubeconfig has a user with the auth
// provider: the provider is registered before the first client is made, and
// everything made of the configuration signs in with the token.
func Example() {
	if err := provider.Register(provider.Options{Stderr: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	resp, err := client.Get(config.Host + "/version")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
}
