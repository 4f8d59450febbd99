package reading

import (
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // RequestInfo logs each selector that it cannot read
	os.Exit(m.Run())
}

// FuzzRequest is TestRequests of package served by coverage. What takes a request for
// another user's is known here by its header alone: the API server's filter has too much
// behind it to be built anew for a fuzzer.
func FuzzRequest(f *testing.F) {
	chance := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		q := Generate(chance)
		f.Add(q.Method, q.Target, q.Header, q.Body)
	}
	f.Fuzz(func(t *testing.T, method, target, header string, body bool) {
		q := Request{Method: method, Target: target, Header: header, Body: body}
		if problem, _, _ := Compare(q, byHeader); problem != "" {
			t.Error(problem)
		}
	})
}

func byHeader(in *http.Request, _ *apirequest.RequestInfo) (as, ok bool) {
	for k := range in.Header {
		as = as || k == "Impersonate-User" || k == "Impersonate-Uid" || k == "Impersonate-Group" ||
			strings.HasPrefix(k, "Impersonate-Extra-")
	}
	return as, true
}
