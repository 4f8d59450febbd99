package kubeconfig

import (
	"reflect"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"
	apiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/kubehsm/kubehsm/kubeconfig/internal/tree"
)

// parse reads a kubeconfig as [clientcmd.Load] does. What the quick scanner
// understands is decoded from the scanner's tree: client-go's way from YAML over JSON
// takes ten times as long, which shows from some hundred contexts on. A fuzz test holds
// one against the other. Whatever is unusual, mistakes included, is left to client-go.
func parse(data []byte) (*api.Config, error) {
	if config, ok := quickly(data); ok {
		return config, nil
	}
	return clientcmd.Load(data)
}

// quickly is [clientcmd.Load] for what the quick scanner understands.
func quickly(data []byte) (*api.Config, bool) {
	var read apiv1.Config
	config := api.NewConfig()
	convert := func() bool { // client-go words what convert refuses
		apiv1.SetObjectDefaults_Config(&read)
		return apiv1.Convert_v1_Config_To_api_Config(&read, config, nil) == nil
	}
	d, to := tree.NewDecoder(), reflect.ValueOf(&read).Elem()
	// Elements are converted one by one, so that read does not grow.
	top, ok := scanTree(data, func(key []byte, element *tree.Node) bool {
		field, known := d.Fields(to.Type())[string(key)]
		if !known {
			return true
		}
		list := to.Field(field)
		if !d.Append(element, list) || !convert() {
			return false
		}
		list.SetLen(0)
		return true
	})
	if !ok || top.Kind != tree.Mapping {
		return nil, false
	}
	for _, m := range top.Members {
		for _, name := range []string{"kind", "apiVersion"} { // client-go takes these two in any case, and no other
			if key := string(m.Key); key != name && strings.EqualFold(key, name) {
				return nil, false
			}
		}
	}
	if !d.Decode(top, to) || read.Kind != "" && read.Kind != "Config" ||
		read.APIVersion != "" && read.APIVersion != latest.Version {
		return nil, false
	}
	return config, convert()
}
