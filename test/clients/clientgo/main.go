// Command clientgo is a program of client-go, of the version that the module file
// asks for, that does what it is told on its standard input, a line at a time, and
// answers each line by one. OTHER names a second context. It is written in
// what all versions know.
//
// It is a module of its own, so that another client-go can be asked for.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

const namespace, pod = "default", "p"

// timeout is what a stream may take.
const timeout = time.Minute

// program is a client of one cluster, and of another if OTHER is set.
type program struct {
	config     *rest.Config
	api, other *kubernetes.Clientset
	printing   sync.Mutex
}

func main() {
	p := &program{}
	var err error
	if p.config, p.api, err = connect(""); err == nil && os.Getenv("OTHER") != "" {
		_, p.other, err = connect(os.Getenv("OTHER"))
	}
	if err != nil {
		p.say("failed", err)
		os.Exit(1)
	}
	verbs := map[string]func(string) (any, error){
		"list":    func(string) (any, error) { return list(p.api) },
		"create":  p.create,
		"watch":   p.watch,
		"exec":    p.exec,
		"forward": p.forward,
		"burst":   func(n string) (any, error) { return burst(n, p.api) },
		"both":    func(n string) (any, error) { return burst(n, p.api, p.other) },
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		verb, arg, _ := strings.Cut(lines.Text(), " ")
		if did, err := verbs[verb](arg); err != nil {
			p.say("failed", err)
		} else {
			p.say("ok", did)
		}
	}
}

func (p *program) say(words ...any) {
	p.printing.Lock()
	defer p.printing.Unlock()
	fmt.Println(strings.Join(strings.Fields(fmt.Sprintln(words...)), " "))
}

func connect(name string) (*rest.Config, *kubernetes.Clientset, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		&clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	config.QPS, config.Burst = 1000, 1000 // no throttling on the client's side
	api, err := kubernetes.NewForConfig(config)
	return config, api, err
}

func list(api *kubernetes.Clientset) (int, error) {
	l, err := api.CoreV1().ConfigMaps(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(l.Items), nil
}

func (p *program) create(name string) (any, error) {
	c, err := p.api.CoreV1().ConfigMaps(namespace).Create(context.Background(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return c.Name, nil
}

// watch starts an informer, which goes on as long as the program.
func (p *program) watch(string) (any, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(p.api, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { p.say("event", o.(*corev1.ConfigMap).Name) },
	})
	factory.Start(make(chan struct{}))
	late := make(chan struct{})
	time.AfterFunc(timeout, func() { close(late) })
	if !cache.WaitForCacheSync(late, informer.HasSynced) {
		return nil, errors.New("the informer has not listed in time")
	}
	return "", nil
}

func (p *program) exec(word string) (any, error) {
	r := p.api.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"echo", word}, Stdout: true}, scheme.ParameterCodec)
	e, err := remotecommand.NewSPDYExecutor(p.config, http.MethodPost, r.URL())
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = e.Stream(remotecommand.StreamOptions{Stdout: &out})
	return out.String(), err
}

func (p *program) forward(port string) (any, error) {
	transport, upgrader, err := spdy.RoundTripperFor(p.config)
	if err != nil {
		return nil, err
	}
	r := p.api.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("portforward")
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, r.URL())
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{":" + port}, stop, ready,
		io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return nil, err
	}
	defer close(stop)
	ports, err := f.GetPorts()
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(int(ports[0].Local)))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, "through"); err != nil {
		return nil, err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// burst lists n times at once, with each client in turn.
func burst(n string, apis ...*kubernetes.Clientset) (any, error) {
	count, err := strconv.Atoi(n)
	if err != nil {
		return nil, err
	}
	errs := make(chan error, count)
	for i := 0; i < count; i++ {
		api := apis[i%len(apis)]
		go func() {
			_, err := list(api)
			errs <- err
		}()
	}
	for i := 0; i < count; i++ {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return count, err
}
