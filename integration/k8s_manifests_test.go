package integration_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rpcgate/rpcgate/config"
	"github.com/rpcgate/rpcgate/integration/gatewaytest"
)

// object is a manifest, as far as the tests below look at it. Its fields are
// those of Kubernetes; what is not here is not looked at.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
	StringData map[string]string `yaml:"stringData"`
	Rules      []struct {
		APIGroups []string `yaml:"apiGroups"`
		Resources []string `yaml:"resources"`
		Verbs     []string `yaml:"verbs"`
	} `yaml:"rules"`
	RoleRef  struct{ Kind, Name string }   `yaml:"roleRef"`
	Subjects []struct{ Kind, Name string } `yaml:"subjects"`
	Spec     struct {
		// A Service's is a map, a workload's has matchLabels.
		Selector    yaml.Node `yaml:"selector"`
		PodSelector selector  `yaml:"podSelector"`
		ClusterIP   string    `yaml:"clusterIP"`
		Ports       []struct {
			Name       string `yaml:"name"`
			Port       int    `yaml:"port"`
			TargetPort string `yaml:"targetPort"`
		} `yaml:"ports"`
		Ingress []struct {
			From  []yaml.Node `yaml:"from"`
			Ports []struct {
				Port string `yaml:"port"`
			} `yaml:"ports"`
		} `yaml:"ingress"`
		Template struct {
			Metadata struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"metadata"`
			Spec podSpec `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type podSpec struct {
	ServiceAccountName string      `yaml:"serviceAccountName"`
	GraceSeconds       int         `yaml:"terminationGracePeriodSeconds"`
	Containers         []container `yaml:"containers"`
	Volumes            []struct {
		Name      string                `yaml:"name"`
		ConfigMap struct{ Name string } `yaml:"configMap"`
	} `yaml:"volumes"`
}

type container struct {
	Args  []string `yaml:"args"`
	Ports []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Env            []envVar `yaml:"env"`
	StartupProbe   probe    `yaml:"startupProbe"`
	LivenessProbe  probe    `yaml:"livenessProbe"`
	ReadinessProbe probe    `yaml:"readinessProbe"`
	VolumeMounts   []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type envVar struct {
	Name      string `yaml:"name"`
	ValueFrom struct {
		SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests are all objects of etc/k8s, by kind/name.
func manifests(t *testing.T) map[string]*object {
	t.Helper()
	files, err := filepath.Glob("../etc/k8s/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	all := map[string]*object{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for documents := yaml.NewDecoder(f); ; {
			o := new(object)
			err := documents.Decode(o)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			name := o.Kind + "/" + o.Metadata.Name
			if o.APIVersion == "" || all[name] != nil {
				t.Errorf("%s: %s has no apiVersion, or is there twice", file, name)
			}
			all[name] = o
		}
	}
	return all
}

// selected is what an object selects pods by.
func (o *object) selected(t *testing.T) map[string]string {
	t.Helper()
	var nested selector
	if err := o.Spec.Selector.Decode(&nested); err == nil && nested.MatchLabels != nil {
		return nested.MatchLabels
	}
	var labels map[string]string
	if err := o.Spec.Selector.Decode(&labels); err != nil {
		t.Fatalf("%s/%s: %v", o.Kind, o.Metadata.Name, err)
	}
	return labels
}

func (c *container) port(name string) int {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// includes tells whether labels have all that are wanted.
func includes(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return len(wanted) > 0
}

func TestKubernetesManifestsAgree(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	need := func(name string) *object {
		o := all[name]
		if o == nil {
			t.Fatalf("there is no %s among %v", name, slices.Sorted(maps.Keys(all)))
		}
		return o
	}
	deployments := map[string]*object{"rpcgate": need("Deployment/rpcgate"), "shop": need("Deployment/shop")}
	pod := &deployments["rpcgate"].Spec.Template.Spec
	gateway := &pod.Containers[0]

	// Whatever selects pods selects those of one deployment, and names their ports.
	for name, o := range all {
		var labels map[string]string
		switch o.Kind {
		case "Service", "Deployment", "PodDisruptionBudget":
			labels = o.selected(t)
		case "NetworkPolicy":
			labels = o.Spec.PodSelector.MatchLabels
		default:
			continue
		}
		var of *object
		for _, d := range deployments {
			if includes(d.Spec.Template.Metadata.Labels, labels) {
				of = d
			}
		}
		if of == nil {
			t.Errorf("%s selects no pods: %v", name, labels)
			continue
		}
		for _, p := range o.Spec.Ports {
			if of.Spec.Template.Spec.Containers[0].port(p.TargetPort) == 0 {
				t.Errorf("%s: the pods have no port %q", name, p.TargetPort)
			}
		}
		for _, rule := range o.Spec.Ingress {
			for _, p := range rule.Ports {
				if of.Spec.Template.Spec.Containers[0].port(p.Port) == 0 {
					t.Errorf("%s: the pods have no port %q", name, p.Port)
				}
				if p.Port == "admin" && len(rule.From) == 0 {
					t.Errorf("%s: the admin port is open to everybody", name)
				}
			}
		}
	}
	for _, p := range need("Service/rpcgate").Spec.Ports {
		if p.TargetPort == "admin" {
			t.Error("the service makes the admin port known")
		}
	}

	for name, p := range map[string]probe{"/healthz": gateway.LivenessProbe, "/readyz": gateway.ReadinessProbe} {
		if p.HTTPGet.Path != name || p.HTTPGet.Port != "admin" {
			t.Errorf("a probe asks %+v, want %s on the admin port", p.HTTPGet, name)
		}
	}

	// The account may do what finding endpoints takes, and nothing else.
	binding, role := need("RoleBinding/rpcgate-endpoints"), need("Role/rpcgate-endpoints")
	if binding.RoleRef.Name != role.Metadata.Name || len(binding.Subjects) != 1 || binding.Subjects[0].Name != pod.ServiceAccountName {
		t.Errorf("the binding is of %v to %v", binding.Subjects, binding.RoleRef)
	}
	need("ServiceAccount/" + pod.ServiceAccountName)
	if got := fmt.Sprint(role.Rules); got != "[{[discovery.k8s.io] [endpointslices] [list watch]}]" {
		t.Errorf("the role grants %s", got)
	}

	for _, env := range gateway.Env {
		if ref := env.ValueFrom.SecretKeyRef; ref.Name != "" {
			if _, ok := need("Secret/" + ref.Name).StringData[ref.Key]; !ok {
				t.Errorf("%s: the secret %s has no %s", env.Name, ref.Name, ref.Key)
			}
		}
	}
	if s := need("Service/shop-pods"); s.Spec.ClusterIP != "None" {
		t.Error("the headless service is not headless")
	}
}

// The gateway takes the configuration of the ConfigMap, and it is about the
// ports, the time and the services that the manifests have.
func TestKubernetesConfigIsChecked(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	pod := all["Deployment/rpcgate"].Spec.Template.Spec
	gateway := &pod.Containers[0]
	text := all["ConfigMap/"+pod.Volumes[0].ConfigMap.Name].Data["gateway.yaml"]
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, exit := gatewaytest.Run(t, "check", "-c", file); exit != 0 {
		t.Fatalf("check exits with %d: %s%s", exit, stdout, stderr)
	}
	mounted := gateway.VolumeMounts[0].MountPath + "/gateway.yaml"
	if !slices.Equal(gateway.Args, []string{"serve", "-c", mounted}) {
		t.Errorf("the gateway is run with %q, but its configuration is at %s", gateway.Args, mounted)
	}

	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"http": cfg.HTTP.Address, "grpc": cfg.GRPC.Address, "admin": cfg.Admin.Address} {
		if _, port, _ := net.SplitHostPort(address); port != strconv.Itoa(gateway.port(name)) {
			t.Errorf("the gateway listens on %s, the pod's port %s is %d", address, name, gateway.port(name))
		}
	}
	if least := cfg.Shutdown.Delay + cfg.Shutdown.DrainTimeout; time.Duration(pod.GraceSeconds)*time.Second < least+5*time.Second {
		t.Errorf("a pod has %ds to end, the gateway takes %v", pod.GraceSeconds, least)
	}
	for _, b := range cfg.Backends {
		service := all["Service/"+b.Kubernetes.Service]
		if service == nil {
			t.Errorf("backend %s: there is no service %s", b.Name, b.Kubernetes.Service)
			continue
		}
		if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Name != b.Kubernetes.Port {
			t.Errorf("backend %s: service %s has ports %v", b.Name, b.Kubernetes.Service, service.Spec.Ports)
		}
	}
	for _, name := range []string{"REDIS_ADDR", "REDIS_PASSWORD"} {
		given := slices.ContainsFunc(gateway.Env, func(e envVar) bool { return e.Name == name })
		if !given || !strings.Contains(text, "${"+name) {
			t.Errorf("%s is not given to the configuration", name)
		}
	}
}
