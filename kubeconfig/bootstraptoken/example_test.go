package bootstraptoken_test

import (
	"fmt"
	"log"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
)

// The ID of a bootstrap token names a Secret in the cluster. It is no secret itself; the rest of the token is, and is not
// printed.
func ExampleParse() {
	token, err := bootstraptoken.Parse([]byte("abcdef.0123456789abcdef"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bootstraptoken.SecretName(token.ID()))
	fmt.Println(token)
	// Output:
	// bootstrap-token-abcdef
	// abcdef.<redacted>
}
