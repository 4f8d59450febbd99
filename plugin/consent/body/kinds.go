package body

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// what describes an object, or the part of one that a patch sets, by the request's resource.
func (t *teller) what(o object) {
	resource := t.r.Resource
	if t.r.Subresource != "" {
		resource += "/" + t.r.Subresource
	}
	if t.r.Group != "" {
		resource += "." + t.r.Group
	}
	switch resource {
	case "rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io":
		t.binding(o)
	case "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io":
		t.role(o)
	case "secrets":
		t.data(o, "data", "stringData")
		if s := t.str(o, "type"); s != "" {
			t.say("type %s", name(s))
		}
		return
	case "configmaps":
		t.data(o, "data", "binaryData")
		return
	case "services":
		t.service(t.obj(o, "spec"))
	case "ingresses.networking.k8s.io":
		t.hosts(t.obj(o, "spec"))
	case "mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"validatingwebhookconfigurations.admissionregistration.k8s.io":
		for _, w := range t.list(o, "webhooks") {
			t.target("webhook "+name(t.str(w, "name")), t.obj(w, "clientConfig"))
		}
	case "customresourcedefinitions.apiextensions.k8s.io":
		if c := t.obj(o, "spec", "conversion", "webhook", "clientConfig"); c != nil {
			t.target("conversion", c)
		}
	case "apiservices.apiregistration.k8s.io":
		t.target("API", t.obj(o, "spec"))
	case "certificatesigningrequests.certificates.k8s.io", "certificatesigningrequests/approval.certificates.k8s.io",
		"certificatesigningrequests/status.certificates.k8s.io":
		t.certificate(o)
	case "serviceaccounts/token":
		t.token(t.obj(o, "spec"))
	case "namespaces":
		for _, k := range keys(t.obj(o, "metadata", "labels")) {
			if strings.HasPrefix(k, "pod-security.kubernetes.io/") {
				t.warn("label %s: %s", name(k), name(t.str(t.obj(o, "metadata", "labels"), k)))
			}
		}
	case "persistentvolumes":
		if p := t.obj(o, "spec", "hostPath"); p != nil {
			t.warn("a path of the node: %s", consent.Quote(t.str(p, "path")))
		}
	case "pods/binding", "bindings":
		t.say("to %s", consent.Quote(t.str(t.obj(o, "target"), "name")))
	case "pods/eviction":
		t.deletion(t.obj(o, "deleteOptions"))
	default:
		if t.r.Group == "gateway.networking.k8s.io" {
			t.hosts(t.obj(o, "spec"))
		}
	}
	if n := t.get(t.obj(o, "spec"), "replicas"); n != nil {
		t.say("replicas: %s", number(n))
	}
	for _, path := range [][]string{{"spec"}, {"spec", "template", "spec"}, {"template", "spec"},
		{"spec", "jobTemplate", "spec", "template", "spec"}} {
		t.pod(t.obj(o, path...))
	}
	if items := t.list(o, "items"); len(items) > 0 && strings.HasSuffix(t.str(o, "kind"), "List") {
		t.say("a list of %d", len(items))
		for _, each := range items[:min(len(items), maxList)] {
			t.identity(each)
			t.what(each)
		}
	}
}

// data names keys, never values.
func (t *teller) data(o object, fields ...string) {
	for _, f := range fields {
		if d := t.obj(o, f); len(d) > 0 {
			keys := keys(d)
			count := "1 key"
			if len(keys) > 1 {
				count = fmt.Sprintf("%d keys", len(keys))
			}
			t.say("%s: %s, %s; values are not shown", f, count, names(keys))
		}
	}
	if t.yes(o, "immutable") {
		t.say("immutable")
	}
}

func (t *teller) binding(o object) {
	role := t.obj(o, "roleRef")
	if role != nil {
		t.say("gives %s %s", name(t.str(role, "kind")), consent.Quote(t.str(role, "name")))
	}
	subjects := t.list(o, "subjects")
	for _, s := range subjects[:min(len(subjects), maxList)] {
		who := fmt.Sprintf("to %s %s", name(t.str(s, "kind")), consent.Quote(t.str(s, "name")))
		if ns := t.str(s, "namespace"); ns != "" {
			who += " of namespace " + name(ns)
		}
		t.say("%s", who)
	}
	if more := len(subjects) - maxList; more > 0 {
		t.warn("TO %d MORE subjects than are shown below", more)
	}
}

// escalating are the verbs with which a role can grant more than it has.
var escalating = []string{"escalate", "bind", "impersonate"}

func (t *teller) role(o object) {
	if t.obj(o, "aggregationRule") != nil {
		t.warn("aggregates other roles by their labels")
	}
	rules := t.list(o, "rules")
	for _, r := range rules {
		verbs, resources := t.words(r, "verbs"), t.words(r, "resources")
		urls := t.words(r, "nonResourceURLs")
		if len(urls) > 0 {
			resources = append(resources, urls...)
		}
		words := names(verbs) + " of " + names(resources)
		if groups := t.words(r, "apiGroups"); slices.Contains(groups, "*") {
			words += " in all groups"
		}
		if only := t.words(r, "resourceNames"); len(only) > 0 {
			words += ", only " + names(only)
		}
		star := slices.Contains(verbs, "*") || slices.Contains(resources, "*")
		loud := slices.ContainsFunc(escalating, func(v string) bool { return slices.Contains(verbs, v) })
		switch {
		case star:
			t.warn("allows %s (* is everything)", words)
		case loud:
			t.warn("allows %s (which can give further rights)", words)
		default:
			t.say("allows %s", words)
		}
	}
	if len(rules) == 0 && t.get(o, "rules") != nil {
		t.say("allows nothing")
	}
}

func (t *teller) service(spec object) {
	if s := t.str(spec, "type"); s != "" {
		t.say("type %s", name(s))
	}
	var ports []string
	for _, p := range t.list(spec, "ports") {
		port := number(t.get(p, "port"))
		if n := t.get(p, "nodePort"); n != nil {
			port += " (node " + number(n) + ")"
		}
		ports = append(ports, port)
	}
	if len(ports) > 0 {
		t.say("ports %s", strings.Join(ports[:min(len(ports), maxList)], ", ")+more(len(ports)))
	}
	if ips := t.words(spec, "externalIPs"); len(ips) > 0 {
		t.warn("receives what is sent to %s", names(ips))
	}
	if n := t.str(spec, "externalName"); n != "" {
		t.warn("leads to %s", consent.Quote(n))
	}
}

func more(n int) string {
	if n > maxList {
		return fmt.Sprintf(" and %d more", n-maxList)
	}
	return ""
}

// hosts names the hosts of an Ingress, of a route, or of a Gateway of the Gateway API.
func (t *teller) hosts(spec object) {
	hosts := t.words(spec, "hostnames")
	named := func(o object, field string) string {
		if host := t.str(o, field); host != "" {
			return host
		}
		return "*"
	}
	rules := t.list(spec, "rules")
	if t.r.Resource == "ingresses" {
		for _, r := range rules {
			hosts = append(hosts, named(r, "host"))
		}
		if t.obj(spec, "defaultBackend") != nil {
			hosts = append(hosts, "*")
		}
	} else if len(hosts) == 0 && len(rules) > 0 {
		hosts = []string{"*"}
	}
	for _, l := range t.list(spec, "listeners") {
		hosts = append(hosts, named(l, "hostname")+":"+number(t.get(l, "port")))
	}
	if len(hosts) > 0 {
		t.say("for hosts %s", names(hosts))
	}
}

// target names where the API server forwards requests. Of a URL only the host is shown: the rest
// may hold a secret.
func (t *teller) target(what string, c object) {
	if s := t.obj(c, "service"); s != nil {
		t.warn("%s: service %s of namespace %s", what, consent.Quote(t.str(s, "name")), name(t.str(s, "namespace")))
	}
	if s := t.str(c, "url"); s != "" {
		host := "unknown"
		if u, err := url.Parse(s); err == nil {
			host = consent.Quote(u.Host)
		}
		t.warn("%s: host %s", what, host)
	}
}

func (t *teller) certificate(o object) {
	spec := t.obj(o, "spec")
	if s := t.str(spec, "signerName"); s != "" && t.r.Subresource == "" {
		t.say("signer %s for %s", name(s), names(t.words(spec, "usages")))
	}
	if s := t.get(spec, "expirationSeconds"); s != nil && t.r.Subresource == "" {
		t.say("for %s seconds", number(s))
	}
	for _, c := range t.list(t.obj(o, "status"), "conditions") {
		t.warn("condition %s: %s", name(t.str(c, "type")), name(t.str(c, "status")))
	}
	if t.get(t.obj(o, "status"), "certificate") != nil {
		t.warn("sets the certificate")
	}
}

func (t *teller) token(spec object) {
	t.say("a token for %s", orDefault(names(t.words(spec, "audiences")), "the API server"))
	if s := t.get(spec, "expirationSeconds"); s != nil {
		t.say("for %s seconds", number(s))
	}
	if b := t.obj(spec, "boundObjectRef"); b != nil {
		t.say("bound to %s %s", name(t.str(b, "kind")), consent.Quote(t.str(b, "name")))
	}
}

func orDefault(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
