// Package status writes the bridge's own answers in the API server's form, a Status:
// clients show its message to the user.
package status

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
)

// reasons are those of the codes we use.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:         metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:       metav1.StatusReasonUnauthorized,
	http.StatusForbidden:          metav1.StatusReasonForbidden,
	http.StatusNotFound:           metav1.StatusReasonNotFound,
	http.StatusMethodNotAllowed:   metav1.StatusReasonMethodNotAllowed,
	http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
}

// Write answers a request with code and message.
func Write(w http.ResponseWriter, to *http.Request, code int, message string) {
	if discovers(to) {
		if code != http.StatusForbidden {
			w.Header().Set("Warning", warning("kubehsm: "+message))
		}
		send(w, code, "text/plain; charset=utf-8", []byte("kubehsm: "+message))
		return
	}
	send(w, code, "application/json", JSON(code, message))
}

// JSON is a metav1.Status of a failure.
func JSON(code int, message string) []byte {
	b, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Message: "kubehsm: " + message, Reason: reasons[code], Code: int32(code)})
	if err != nil { // a struct of strings cannot fail
		panic(err)
	}
	return b
}

// warning is a Warning header (RFC 7234 section 5.5, code 299), which kubectl
// prints once however often it comes.
func warning(text string) string {
	return `299 - "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ").Replace(text) + `"`
}

// discovers tells whether a request is one of client-go's discovery: that looks
// into no Status. Of a 403 it shows a text/plain body, and "unknown" for any
// other; for a 401 and a 503 it has words of its own.
func discovers(r *http.Request) bool {
	_, path := loopback.SplitPath(r.RequestURI)
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		return len(parts) < 3
	case "apis":
		return len(parts) < 4
	case "openapi":
		return true
	}
	return false
}

func send(w http.ResponseWriter, code int, contentType string, b []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-cache, private")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(b) // a client that is gone wants no answer
}
