package consent_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// With the policy writes, everything but reading needs a person's consent.
func ExamplePolicy_Needs() {
	policy := consent.ParsePolicy("writes")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		request := consent.Parse(method, "/api/v1/namespaces/shop/pods/web-0", http.Header{}, false)
		needed, err := policy.Needs(request)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(method, needed)
	}
	// Output:
	// GET false
	// DELETE true
}
