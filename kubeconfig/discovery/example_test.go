package discovery_test

import (
	"fmt"

	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
)

// kubeadm prints the hash of a cluster's authority in this form.
func ExampleParsePin() {
	pin, err := discovery.ParsePin("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	fmt.Println(pin, err)
	_, err = discovery.ParsePin("e3b0c44298fc")
	fmt.Println(err != nil)
	// Output:
	// sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 <nil>
	// true
}
