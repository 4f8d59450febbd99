// Package clients tries the kubeconfig entry that kubehsm writes with other
// people's programs: the oldest kubectl that Debian has and the newest, the
// Python, JavaScript and Ruby clients, client-go, curl and helm. [TestMatrix] has all
// of them do the same and holds docs/clients.md to it.
package clients
