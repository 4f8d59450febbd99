package served

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/kubehsm/kubehsm/test/reading"
)

var (
	cases  = flag.Int("cases", 1_000_000, "how many requests TestRequests makes up")
	served = flag.Int("served", 16_000, "how many requests TestServed sends")
	seed   = flag.Uint64("seed", 0, "the seed of what is made up; 0 is one by the clock")
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard()) // RequestInfo logs each selector that it cannot read
	os.Exit(m.Run())
}

// source is a source of chance, whose seed is printed.
func source(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 1))
}

// TestRequests: the API server takes no request for another one than we do.
func TestRequests(t *testing.T) {
	chance := source(t)
	judged, accepted := 0, 0
	for range *cases {
		problem, j, a := reading.Compare(reading.Generate(chance), impersonates)
		if problem != "" {
			t.Fatal(problem)
		}
		if j && a {
			judged++
		}
		if a {
			accepted++
		}
	}
	t.Logf("%d requests, %d of them accepted there, %d of these judged here", *cases, accepted, judged)
	if judged < *cases/3 {
		t.Errorf("only %d of %d requests were compared: the grammar makes too many odd ones", judged, *cases)
	}
}

// impersonates asks the API server's filter; ok is false if that refuses the request.
func impersonates(in *http.Request, info *apirequest.RequestInfo) (as, ok bool) {
	relevant := false
	for k := range in.Header {
		relevant = relevant || strings.Contains(strings.ToLower(k), "impersonate")
	}
	if !relevant {
		return false, true
	}
	in = in.Clone(apirequest.WithUser(in.Context(), &user.DefaultInfo{Name: me}))
	in = in.WithContext(apirequest.WithRequestInfo(in.Context(), info))
	reached := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u, _ := apirequest.UserFrom(r.Context())
		as, ok = u.GetName() != me || len(u.GetGroups()) > 0 || u.GetUID() != "" || len(u.GetExtra()) > 0, true
	})
	impersonation.WithImpersonation(reached, authorizerfactory.NewAlwaysAllowAuthorizer(),
		metainternalversionscheme.Codecs).ServeHTTP(httptest.NewRecorder(), in)
	return as, ok
}

// me is who sends the requests.
const me = "sender"
