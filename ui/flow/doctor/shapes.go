package doctor

import (
	"bytes"
	"net"
	"regexp"
	"strings"
)

// A shape is what is recognized by how it looks, and what stands in its place.
type shape struct {
	look *regexp.Regexp
	by   func(found []byte) []byte
}

func (s shape) replace(b []byte) []byte { return s.look.ReplaceAllFunc(b, s.by) }

func always(by string) func([]byte) []byte {
	return func([]byte) []byte { return []byte(by) }
}

// secrets have no place in any log. Were one there, it would not leave.
func secrets() []shape {
	return []shape{
		{regexp.MustCompile(`-----BEGIN [^-]+-----[\s\S]*?(?:-----END [^-]+-----|$)`), always("<pem>")},
		{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*`), always("<credential>")},
		{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), always("<bootstrap-token>")},
		{regexp.MustCompile(`\bKHS[MP]\d-[\w-]+`), always("<ticket>")},
		{regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[\w.~+/=-]{6,}`), always("<credential>")},
		{regexp.MustCompile(`(?i)\b(?:pin|puk|password|passphrase|pin-value|client_secret|api_?key|` +
			`access_?token|refresh_?token|id_?token)["']?(?:=|:\s*)["']?[^\s"'&;,}]+`), func(found []byte) []byte {
			return append(found[:bytes.IndexAny(found, "=:")+1:bytes.IndexAny(found, "=:")+1], "<credential>"...)
		}},
		{regexp.MustCompile(`://[^/\s@"']+@`), always("://<credential>@")},
	}
}

// shapes are names of what kubehsm does not know, or no longer.
func shapes() []shape {
	// attribute of a token's URI that tells one from another.
	attribute := regexp.MustCompile(`\b(token|serial|object|id)=[^;?&\s"'<\\]+`)
	return []shape{
		{regexp.MustCompile(`\b[\w.+-]+@[\w-]+\.[\w.-]+\w`), always("<mail>")},
		// Of another user.
		{regexp.MustCompile(`(?:/home/|/Users/|:\\+Users\\+)[^/\\\s"'<]+`), func(found []byte) []byte {
			at := bytes.LastIndexAny(found, `/\`)
			return append(found[:at+1:at+1], "<login>"...)
		}},
		{regexp.MustCompile(`\b(?:pkcs11|piv|yubikey):[^\s"']+`), func(uri []byte) []byte {
			return attribute.ReplaceAll(uri, []byte("$1=<$1>"))
		}},
		{regexp.MustCompile(`\benrollment=[^\s<"]+`), always("enrollment=<former-enrollment>")},
		// A host where a URL or a message of net, crypto/tls or crypto/x509 has one.
		{regexp.MustCompile(`(?:https?://|\blookup )[\w.-]+`), host},
		{regexp.MustCompile(`certificate is valid for .+?, not [\w.*-]+`),
			always("certificate is valid for <other servers>, not <server>")},
		{regexp.MustCompile(`[\w/-]?\b(?:[a-z0-9-]+\.){2,}[a-z][a-z0-9-]+\b`), host},
		{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`), address},
		{regexp.MustCompile(`\b[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){2,7}|::[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4})*`),
			address},
	}
}

// public are domains that everybody has in a report.
var public = []string{"k8s.io", "kubernetes.io", "kubehsm.io", "github.com", "127.0.0.1", "localhost"}

// host replaces a host's name; a file's, which has a path before it, is none.
func host(found []byte) []byte {
	name := string(found)
	prefix := ""
	for _, p := range []string{"https://", "http://", "lookup "} {
		if rest, ok := strings.CutPrefix(name, p); ok {
			prefix, name = p, rest
		}
	}
	if prefix == "" && strings.HasPrefix(name, "/") || strings.HasPrefix(name, "org.debian.") {
		return found
	}
	for _, p := range public {
		if name == p || strings.HasSuffix(name, "."+p) {
			return found
		}
	}
	return []byte(prefix + "<server>")
}

// address replaces addresses but those of the loopback, which are no secret and
// tell of the bridge.
func address(found []byte) []byte {
	end := len(found)
	if ip := net.ParseIP(string(found)); ip == nil { // "fd00::1: connection refused"
		end = len(bytes.TrimRight(found, ":"))
	}
	ip := net.ParseIP(string(found[:end]))
	if ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		return found
	}
	return append([]byte("<address>"), found[end:]...)
}
