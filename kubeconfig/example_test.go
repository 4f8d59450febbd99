package kubeconfig_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/kubeconfig"
)

const example = `# my clusters
apiVersion: v1
kind: Config
current-context: prod
contexts:
- name: prod
  context: {cluster: prod, user: jane}
- name: staging
  context: {cluster: prod, user: nobody}
clusters:
- name: prod
  cluster: {server: "https://prod.example:6443"}
users:
- name: jane
  user: {client-key: jane.key, client-certificate: jane.crt}
`

func write(text string) (path string, remove func()) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(dir, "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	return path, func() { _ = os.RemoveAll(dir) }
}

// How each context of a kubeconfig signs in.
func ExampleRules_List() {
	path, remove := write(example)
	defer remove()
	contexts, err := kubeconfig.Rules{Explicit: path}.List(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range contexts {
		fmt.Println(c.Name, c.Cluster.Server, c.User.Kind)
	}
	// Output:
	// prod https://prod.example:6443 key-file
	// staging https://prod.example:6443 missing
}

// A change is planned first. The difference says what it would do to the file, whose comments and order it keeps.
func ExampleRules_PlanUse() {
	path, remove := write(example)
	defer remove()
	plan, err := kubeconfig.Rules{Explicit: path}.PlanUse(context.Background(), "staging")
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(plan.Diff()) {
		if strings.HasPrefix(line, "-c") || strings.HasPrefix(line, "+c") {
			fmt.Print(line)
		}
	}
	// Output:
	// -current-context: prod
	// +current-context: staging
}
