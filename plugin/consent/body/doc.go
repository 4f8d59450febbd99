// Package body gives a short, bounded account of a request's body, for a person who is asked
// whether the request may be sent: what is bound, run or exposed. It reads a body as the API
// server does, by sigs.k8s.io/json and sigs.k8s.io/yaml. Of a body that could be read in two
// ways it says so, and nothing else.
//
// What a request is about is told by its URL, which the API server goes by, and not by the
// body's kind. Lines are ASCII, made of words of ours and of names that are quoted
// (consent.Quote). Values of Secrets, ConfigMaps and environment variables, and of fields that
// this package does not know, are in no line.
package body
