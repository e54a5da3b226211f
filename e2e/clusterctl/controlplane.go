// The control plane: etcd, API server, controller manager and scheduler, with the settings a kubeadm cluster has where
// they matter to berth (Node and RBAC authorization, NodeRestriction, service accounts, bound tokens).
package main

import (
	"fmt"
	"os"
	"strings"
)

// ControlPlane knows the addresses; all servers listen on Network.APIAddress or loopback only.
type ControlPlane struct {
	layout        Layout
	network       Network
	audit         bool
	fsync         bool
	apiserverArgs []string // given last, so that they win
}

func (c ControlPlane) server() string {
	return fmt.Sprintf("https://%s:%d", c.network.APIAddress, c.network.Ports.APIServer)
}

func (c ControlPlane) etcdURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.network.Ports.Etcd)
}

// writeFiles makes certificates, kubeconfigs and the audit policy.
func (c ControlPlane) writeFiles() (*Authority, error) {
	l := c.layout
	if err := os.MkdirAll(l.path("pki"), 0o700); err != nil {
		return nil, err
	}
	authority, err := newAuthority("berth-e2e")
	if err != nil {
		return nil, err
	}
	etcdAuthority, err := newAuthority("berth-e2e-etcd")
	if err != nil {
		return nil, err
	}
	serviceAccounts, err := newAuthority("service-accounts") // only its key is used
	if err != nil {
		return nil, err
	}
	hosts := []string{"localhost", "127.0.0.1", c.network.APIAddress, c.network.serviceAddress(), "kubernetes",
		"kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	masters := []string{"system:masters"}
	files := []struct {
		name   string
		signer *Authority
		Subject
	}{
		{"server", authority, Subject{User: "kube-apiserver", Hosts: hosts}},
		{"kubelet-client", authority, Subject{User: "kube-apiserver-kubelet-client", Groups: masters}},
		{"etcd-server", etcdAuthority, Subject{User: "etcd", Hosts: []string{"localhost", "127.0.0.1"}}},
		{"etcd-client", etcdAuthority, Subject{User: "kube-apiserver"}},
	}
	for _, file := range files {
		pair, err := file.signer.sign(file.Subject)
		if err != nil {
			return nil, err
		}
		if err := pair.store(l.pki(file.name)); err != nil {
			return nil, err
		}
	}
	for name, authority := range map[string]*Authority{"ca": authority, "etcd-ca": etcdAuthority, "sa": serviceAccounts} {
		if err := authority.store(l.pki(name)); err != nil {
			return nil, err
		}
	}
	kubeconfigs := map[string]Subject{
		l.adminKubeconfig():                     {User: "berth-e2e-admin", Groups: masters},
		l.path("controller-manager.kubeconfig"): {User: "system:kube-controller-manager"},
		l.path("scheduler.kubeconfig"):          {User: "system:kube-scheduler"},
	}
	for file, subject := range kubeconfigs {
		pair, err := authority.sign(subject)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, kubeconfig(c.server(), authority.Cert, subject.User, pair), 0o600); err != nil {
			return nil, err
		}
	}
	return authority, os.WriteFile(l.path("audit-policy.yaml"), []byte(auditPolicy), 0o644)
}

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func (c ControlPlane) etcd() Program {
	l, ports := c.layout, c.network.Ports
	peer := fmt.Sprintf("https://127.0.0.1:%d", ports.EtcdPeer)
	arguments := []string{l.binDir() + "/etcd", "--name=etcd", "--data-dir=" + l.path("etcd"),
		"--listen-client-urls=" + c.etcdURL(), "--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=etcd=" + peer,
		"--cert-file=" + l.pki("etcd-server.crt"), "--key-file=" + l.pki("etcd-server.key"),
		"--client-cert-auth", "--trusted-ca-file=" + l.pki("etcd-ca.crt"),
		"--peer-cert-file=" + l.pki("etcd-server.crt"), "--peer-key-file=" + l.pki("etcd-server.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + l.pki("etcd-ca.crt"), "--log-level=warn"}
	if !c.fsync {
		// The data need not survive the machine, and a slow disk must not make tests slow.
		arguments = append(arguments, "--unsafe-no-fsync")
	}
	return Program{Name: "etcd", Arguments: arguments}
}

func (c ControlPlane) apiserver() Program {
	l, ports := c.layout, c.network.Ports
	arguments := []string{l.binDir() + "/kube-apiserver",
		"--etcd-servers=" + c.etcdURL(), "--etcd-cafile=" + l.pki("etcd-ca.crt"),
		"--etcd-certfile=" + l.pki("etcd-client.crt"), "--etcd-keyfile=" + l.pki("etcd-client.key"),
		"--bind-address=" + c.network.APIAddress, "--advertise-address=" + c.network.APIAddress,
		fmt.Sprintf("--secure-port=%d", ports.APIServer), "--cert-dir=" + l.path("pki"),
		"--tls-cert-file=" + l.pki("server.crt"), "--tls-private-key-file=" + l.pki("server.key"),
		"--client-ca-file=" + l.pki("ca.crt"), "--service-cluster-ip-range=" + c.network.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.pki("sa.key"), "--service-account-signing-key-file=" + l.pki("sa.key"),
		"--kubelet-client-certificate=" + l.pki("kubelet-client.crt"),
		"--kubelet-client-key=" + l.pki("kubelet-client.key"),
		"--kubelet-certificate-authority=" + l.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--profiling=false"}
	if strings.HasPrefix(c.network.APIAddress, "127.") {
		// Loopback cannot be an endpoint of the kubernetes service, and without nodes nobody asks for it.
		arguments = append(arguments, "--endpoint-reconciler-type=none")
	}
	if c.audit {
		// Blocking: when a request has been answered its line is in the file.
		arguments = append(arguments, "--audit-log-path="+l.auditLog(), "--audit-log-mode=blocking",
			"--audit-log-format=json", "--audit-policy-file="+l.path("audit-policy.yaml"))
	}
	return Program{Name: "kube-apiserver", Arguments: append(arguments, c.apiserverArgs...)}
}

func (c ControlPlane) controllerManager() Program {
	l := c.layout
	return Program{Name: "kube-controller-manager", Arguments: []string{l.binDir() + "/kube-controller-manager",
		"--kubeconfig=" + l.path("controller-manager.kubeconfig"), "--leader-elect=false",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.network.Ports.ControllerManager),
		"--tls-cert-file=" + l.pki("server.crt"), "--tls-private-key-file=" + l.pki("server.key"),
		"--service-account-private-key-file=" + l.pki("sa.key"), "--root-ca-file=" + l.pki("ca.crt"),
		// With the limits on its requests that it has by default: how soon the garbage collector deletes is measured.
		"--use-service-account-credentials", "--flex-volume-plugin-dir=" + l.path("volume-plugins"), "--profiling=false"}}
}

func (c ControlPlane) scheduler() Program {
	l := c.layout
	return Program{Name: "kube-scheduler", Arguments: []string{l.binDir() + "/kube-scheduler",
		"--kubeconfig=" + l.path("scheduler.kubeconfig"), "--leader-elect=false",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.network.Ports.Scheduler),
		"--tls-cert-file=" + l.pki("server.crt"), "--tls-private-key-file=" + l.pki("server.key"),
		"--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false"}}
}
