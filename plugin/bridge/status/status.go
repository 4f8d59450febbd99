// Package status writes the bridge's own answers in the API server's form, a Status:
// clients show its message to the user.
package status

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
)

// status is metav1.Status, as far as it is needed here. Importing apimachinery
// for seven fields would be paid by every start of the binary.
type status struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   struct{} `json:"metadata"`
	Status     string   `json:"status"`
	Message    string   `json:"message"`
	Reason     string   `json:"reason"`
	Code       int      `json:"code"`
}

// reasons are metav1.StatusReason for the codes we use.
var reasons = map[int]string{
	http.StatusBadRequest:         "BadRequest",
	http.StatusUnauthorized:       "Unauthorized",
	http.StatusForbidden:          "Forbidden",
	http.StatusNotFound:           "NotFound",
	http.StatusMethodNotAllowed:   "MethodNotAllowed",
	http.StatusServiceUnavailable: "ServiceUnavailable",
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
	b, err := json.Marshal(status{Kind: "Status", APIVersion: "v1", Status: "Failure",
		Message: "kubehsm: " + message, Reason: reasons[code], Code: code})
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
