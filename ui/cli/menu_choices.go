package cli

// choices are the screens of the terminal UI, line by line: each is a command
// that can be typed as well.
func choices() []choice {
	name := func(question string) []asked { return []asked{{question: question}} }
	return []choice{
		{title: "see tokens, keys and certificates", args: []string{"token", "list"}},
		{title: "look at one token", args: []string{"token", "info"}, asks: []asked{{"token (URI)", "token", true}}},
		{title: "enroll a key for a cluster", args: []string{"enroll"}, writes: true, asks: []asked{
			{"user name", "user", false}, {"groups, separated by commas", "group", true}, {"kubeconfig context to join", "context", true}}},
		{title: "change the PIN", args: []string{"token", "pin", "change"}, writes: true, asks: []asked{{"token (URI)", "token", true}}},
		{title: "set a new PIN when the old one is blocked", args: []string{"token", "pin", "unblock"}, writes: true, asks: []asked{{"token (URI)", "token", true}}},
		{title: "see contexts and how they sign in", args: []string{"kubeconfig", "list"}},
		{title: "check a context: sign in to its cluster", args: []string{"kubeconfig", "check"}, asks: []asked{{"context", "", true}}},
		{title: "move a context's key to a token", args: []string{"kubeconfig", "migrate"}, writes: true, asks: name("context")},
		{title: "renew a certificate", args: []string{"certificate", "renew"}, writes: true,
			asks: []asked{{"enrollment", "", true}}},
		{title: "take the latest kubeconfig change back", args: []string{"kubeconfig", "undo"}, writes: true},
		{title: "see requests that wait for a decision", args: []string{"csr", "list", "--pending"}},
		{title: "look at a request", args: []string{"csr", "show"}, asks: name("request")},
		{title: "approve a request", args: []string{"csr", "approve"}, writes: true, asks: name("request")},
		{title: "deny a request", args: []string{"csr", "deny"}, writes: true, asks: name("request")},
		{title: "see what the agent does", args: []string{"agent", "status"}},
		{title: "see what was done with the keys", args: []string{"audit", "--since", "24h"}},
		{title: "lock every token", args: []string{"agent", "lock"}},
		{title: "make a ticket for somebody who joins", args: []string{"helpdesk", "ticket"}, writes: true, asks: []asked{{"user name", "for", false}, {"groups, separated by commas", "group", true}}},
		{title: "see tickets and bootstrap tokens", args: []string{"bootstrap-token", "list"}},
		{title: "find out what is wrong", args: []string{"doctor"}},
		{title: moreTitle},
	}
}

// moreTitle is the choice that shows the others.
const moreTitle = "show all that can be done"

// moreChoices are all others that the screens of the terminal UI have.
func moreChoices() []choice {
	one := func(question string) []asked { return []asked{{question: question}} }
	maybe := func(question string) []asked { return []asked{{question: question, optional: true}} }
	token, key := asked{"token (URI)", "token", true}, asked{"key (URI)", "key", false}
	user, groups, reason := asked{"user name", "user", false}, asked{"groups, separated by commas", "group", true}, asked{"reason", "reason", false}
	return []choice{
		{title: "join a cluster with a ticket", args: []string{"join"}, writes: true},
		{title: "have scdaemon let go of a card", args: []string{"token", "release"}, writes: true},
		{title: "change the PUK", args: []string{"token", "puk", "change"}, writes: true, asks: []asked{token}},
		{title: "give a card a random PUK", args: []string{"token", "puk", "change", "--generate"}, writes: true, asks: []asked{token}},
		{title: "replace the management key with one that the card keeps", args: []string{"token", "management-key", "set", "--protect"}, writes: true, asks: []asked{token}},
		{title: "set how many wrong PINs lock a card", args: []string{"token", "retries"}, writes: true, asks: []asked{{"wrong PINs", "pin", false}, {"wrong PUKs", "puk", false}, token}},
		{title: "set up a blank token", args: []string{"token", "init"}, writes: true, asks: []asked{{"label", "label", false}, token}},
		{title: "reset a card", args: []string{"token", "reset"}, writes: true, asks: []asked{token}},
		{title: "look at a key", args: []string{"key", "show"}, asks: []asked{key}},
		{title: "make a key", args: []string{"key", "generate"}, writes: true, asks: []asked{token, {"slot, on a card", "slot", true}, {"label, on other tokens", "label", true}}},
		{title: "have a token state where a key was made", args: []string{"key", "attest"}, asks: []asked{key}},
		{title: "move a key to another slot", args: []string{"key", "move"}, writes: true, asks: []asked{key, {"slot", "to", false}}},
		{title: "destroy a key", args: []string{"key", "delete"}, writes: true, asks: []asked{key}},
		{title: "look at a certificate", args: []string{"certificate", "show"}, asks: maybe("enrollment")},
		{title: "put a certificate on a token", args: []string{"certificate", "import"}, writes: true, asks: []asked{{question: "file"}, key}},
		{title: "save a certificate", args: []string{"certificate", "export"},
			asks: []asked{{"enrollment", "", true}, {"file", "to", false}}},
		{title: "remove a certificate from a token", args: []string{"certificate", "delete"}, writes: true, asks: []asked{key}},
		{title: "verify an attestation that was sent", args: []string{"attestation", "verify"}, asks: one("file")},
		{title: "use another context", args: []string{"kubeconfig", "use"}, writes: true, asks: one("context")},
		{title: "write the entry of an enrollment", args: []string{"kubeconfig", "set"}, writes: true, asks: maybe("enrollment")},
		{title: "follow a cluster that has moved", args: []string{"kubeconfig", "refresh"}, writes: true, asks: maybe("enrollment")},
		{title: "take the entry of an enrollment out", args: []string{"kubeconfig", "remove"}, writes: true, asks: one("enrollment")},
		{title: "see what was changed in kubeconfig files", args: []string{"kubeconfig", "history"}},
		{title: "remove an enrollment", args: []string{"unenroll"}, writes: true, asks: one("enrollment")},
		{title: "unlock a token", args: []string{"unlock"}, asks: maybe("enrollment")},
		{title: "see which requests need my yes", args: []string{"consent", "show"}, asks: maybe("enrollment")},
		{title: "say which requests need my yes", args: []string{"consent", "set"}, writes: true,
			asks: []asked{{question: "enrollment"}, {"session, writes or always", "policy", false}}},
		{title: "ask whether a request would be issued", args: []string{"csr", "forecast"}, asks: []asked{user, groups}},
		{title: "file a request for a key", args: []string{"csr", "create"}, writes: true, asks: []asked{key, user, groups}},
		{title: "see requests that were filed from here", args: []string{"csr", "list", "--mine"}},
		{title: "wait for a request", args: []string{"csr", "wait"}, asks: one("request")},
		{title: "file a request again", args: []string{"csr", "resume"}, writes: true, asks: one("request")},
		{title: "take a request back", args: []string{"csr", "cancel"}, writes: true, asks: one("request")},
		{title: "end the agent", args: []string{"agent", "stop"}},
		{title: "move the bridge to another port", args: []string{"agent", "port"}, writes: true, asks: one("port")},
		{title: "see what starts the agent at login", args: []string{"agent", "unit"}},
		{title: "approve a request that was filed with a ticket", args: []string{"helpdesk", "approve"}, writes: true, asks: one("request")},
		{title: "take access away after a token was lost", args: []string{"helpdesk", "revoke"}, writes: true, asks: []asked{user, groups}},
		{title: "open a sealed PUK", args: []string{"helpdesk", "open"}, writes: true, asks: []asked{{"ticket's ID", "ticket-id", false}, {"serial number of the token", "serial", false}}},
		{title: "see what the help desk did from here", args: []string{"helpdesk", "list"}},
		{title: "make a bootstrap token", args: []string{"bootstrap-token", "create", "--print-join-command"}, writes: true},
		{title: "delete a ticket or bootstrap token", args: []string{"bootstrap-token", "delete"}, writes: true, asks: one("ID")},
		{title: "break the glass", args: []string{"breakglass", "request"}, writes: true, asks: []asked{reason}},
		{title: "approve that somebody breaks the glass", args: []string{"breakglass", "approve"}, writes: true, asks: one("request")},
		{title: "seal a token for a safe", args: []string{"breakglass", "seal"}, writes: true, asks: []asked{user, {"token (URI)", "token", false}, reason}},
		{title: "see what there is for emergencies", args: []string{"breakglass", "list"}},
		{title: "compare a cluster's roles with those needed", args: []string{"rbac", "check"}},
		{title: "apply the roles to a cluster", args: []string{"rbac", "apply"}, writes: true},
		{title: "see the roles", args: []string{"rbac", "print"}},
		{title: "write a report for somebody who helps", args: []string{"doctor"}, asks: []asked{{"new file", "bundle", false}}},
	}
}
