package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/text"
)

func exitCodesTopic() *cobra.Command {
	long := "The exit codes do not change between versions:\n"
	for _, e := range exitCodes() {
		long += fmt.Sprintf("\n  %-4s %s", e.Name, e.Text)
	}
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean", Long: long,
		Example: "kubehsm unlock || echo \"exit code $?\"",
	}
}

func outputTopic() *cobra.Command {
	long := `With -o json or -o yaml a command prints one document on standard output. Other text
goes to standard error. New versions add fields, and never rename or remove any.
Fields without a value are left out.`
	for _, d := range documents() {
		long += "\n\n  " + d.Name
		for _, l := range text.Wrap(d.Text, helpWidth-6) {
			long += "\n      " + l
		}
	}
	return &cobra.Command{
		Use: "output", Short: "What -o json and -o yaml print",
		Long:    long,
		Example: "kubehsm token list -o json | jq -r '.tokens[].uri'",
	}
}

func documents() []Entry {
	return []Entry{
		{"token list",
			"tokens[]: uri scheme label manufacturer model serial firmware reader initialized pin{retries locked " +
				"…} slots[] error; problems[]: source message hint"},
		{"token info",
			"a token as in token list, with every slot, and details{formFactor fips pin{left total default} puk " +
				"managementKey{algorithm default protected touchPolicy} attests identityFrom}"},
		{"token wait", "tokens[], without slots"},
		{"token pin, puk, management-key, reset",
			"a token as in token info, without slots; with --print newPUK or newManagementKey"},
		{"token init", "a token as in token list, without slots"},
		{"key list",
			"keys[]: uri token id label algorithm fingerprint origin pinPolicy touchPolicy extractable " +
				"certificate problem; problems[]"},
		{"key generate, show", "a key as in key list"},
		{"key delete", "deleted: a slot as in token list; enrollments[]"},
		{"key attest",
			"source verified statement{slot model serial firmware pinPolicy touchPolicy fips algorithm root} " +
				"error pem"},
		{"attestation verify", "attestations[]: as key attest"},
		{"csr list",
			"requests[]: name uid state reason message requester user groups signerName usages expiration key " +
				"fingerprint note created warnings refusals risks ticket"},
		{"csr show, create, approve, deny", "a request as in csr list"},
		{"csr wait", "name certificate (PEM, leaf first)"},
		{"certificate show, export",
			"user groups issuer serial notBefore notAfter algorithm fingerprint keyFingerprint pem"},
		{"kubeconfig list", "contexts[]: name cluster server user userKind namespace file current ours enrollment"},
		{"kubeconfig set, undo", "files[] changed diff notes[]"},
		{"kubeconfig refresh", "name changes[]{field old new} unproven changed diff"},
		{"bootstrap-token create", "token id description expires usages groups warnings joinCommand"},
		{"bootstrap-token list", "tokens[]: as create, the token redacted without --reveal"},
		{"bootstrap-token delete, generate", "deleted[]; token"},
		{"helpdesk ticket",
			"tickets[]: ticket id name server terms{user groups signer lifetime policy serial} expires"},
		{"helpdesk approve", "request (as in csr list) notAfter certificate ticketEnded notes"},
		{"helpdesk revoke",
			"user server bindings[] groupBindings[] certificates[] pendingRequests[] tickets[] unknown[] " +
				"unseen[] stop (as with --certificate) done[] failed[]"},
		{"helpdesk revoke --certificate",
			"server targets[]: certificate key user notAfter groups request token; alreadyRevoked[] refusals[] " +
				"warnings[] risks[] byApprover done{approver inForce after note}"},
		{"revocation list", "revoked[]: certificate key user notAfter reason by at; settings{failClosed spared}; " +
			"filed[], the Revocations"},
		{"revocation lift, set", "lifted[]: as revocation list; inForce after note"},
		{"revocation check", "steps[]: what ok note"},
		{"breakglass approve", "a request as in csr list"},
		{"breakglass list", "breakGlass[]: name user server key notAfter state"},
		{"rbac print", "manifest; with --revocation-authorizer authorization kubeconfig"},
		{"csr approve --proven", "requests[]: request user notes problem; left"},
		{"roster list", "tokens[]: serial owner groups state horizon notAfter model stage why request; unknown"},
		{"roster import", "written"},
		{"roster line", "as bootstrap-token create, with joinCommand"},
		{"roster remove", "tokens[], as in roster list; tickets[] unseen[] changed"},
		{"enroll, join, breakglass request",
			"name context kubeconfig key fingerprint request notAfter user groups rights ask notes next"},
		{"agent status",
			"running, and if it is: version pid started bridge tokens upstreams sessions signatures dials memory " +
				"program newer supervised locksOn renewals unfollowed"},
		{"audit",
			"records[]: time event outcome reason error code count enrollment server key token client{pid " +
				"command} agent version; damaged"},
		{"version", "version go platform"},
	}
}
