// Network: addresses and ports of one cluster, and what of them the kernel must know.
//
// A cluster with nodes owns number i of 0 to 254: 198.18.i.0/24 joins its nodes to the API server (RFC 2544's range,
// which no production network uses), 198.19.i.0/24 is for services, 10.24k.i.0/24 for the pods of node k. The link that
// carries 198.18.i.1 is the claim to i: it lives exactly as long as the cluster.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
)

const (
	numbersMax     = 255
	portFirst      = 20000 // below the kernel's range for outgoing connections, which starts at 32768
	portCount      = 12000
	portsOfCluster = 5
	portTriesMax   = 200
)

// Ports on the API address or on loopback.
type Ports struct {
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	APIServer         int `json:"apiserver"`
	ControllerManager int `json:"controllerManager"`
	Scheduler         int `json:"scheduler"`
}

// Network of a cluster. Without nodes there is only loopback, and Number means nothing.
type Network struct {
	Number      int    `json:"number"`
	APIAddress  string `json:"apiAddress"`
	ServiceCIDR string `json:"serviceCIDR"`
	Ports       Ports  `json:"ports"`
}

func (n Network) serviceAddress() string { return strings.Replace(n.ServiceCIDR, ".0/24", ".1", 1) }

func (n Network) nodeAddress(node NodeLayout) string {
	return fmt.Sprintf("198.18.%d.%d", n.Number, node.Index+1)
}

func (n Network) podCIDR(node NodeLayout) string {
	return fmt.Sprintf("10.%d.%d.0/24", 240+node.Index, n.Number)
}

// newNetwork claims a number if there are nodes, and finds free ports.
func newNetwork(l Layout, nodes int) (Network, error) {
	network := Network{APIAddress: "127.0.0.1", ServiceCIDR: "198.19.255.0/24"}
	if nodes > 0 {
		number, err := claimNumber(l)
		if err != nil {
			return network, err
		}
		network.Number = number
		network.APIAddress = fmt.Sprintf("198.18.%d.1", number)
		network.ServiceCIDR = fmt.Sprintf("198.19.%d.0/24", number)
	}
	first, err := freePorts(network.APIAddress)
	if err != nil {
		return network, err
	}
	network.Ports = Ports{
		Etcd: first, EtcdPeer: first + 1, APIServer: first + 2, ControllerManager: first + 3, Scheduler: first + 4}
	return network, nil
}

// claimNumber makes the link bridge with the first free number. Two clusters that start at once take turns.
func claimNumber(l Layout) (int, error) {
	lock, err := lockMachine()
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	if err := rememberMachine(); err != nil {
		return 0, err
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return 0, err
	}
	taken := map[string]bool{}
	for _, address := range addresses {
		taken[address.String()] = true
	}
	for number := range numbersMax {
		address := fmt.Sprintf("198.18.%d.1/24", number)
		if taken[address] {
			continue
		}
		return number, runAll([][]string{
			{"ip", "link", "add", l.linkBridge(), "type", "bridge"},
			{"ip", "address", "add", address, "dev", l.linkBridge()},
			{"ip", "link", "set", l.linkBridge(), "up"},
		})
	}
	return 0, fmt.Errorf("198.18.0.0/24 to 198.18.%d.0/24 are all in use: take a cluster down first", numbersMax-1)
}

// freePorts finds portsOfCluster of them in a row, at random, so that clusters that start at the same time hardly ever
// meet. Returns the first.
func freePorts(address string) (int, error) {
	for range portTriesMax {
		first := portFirst + portsOfCluster*rand.IntN(portCount/portsOfCluster)
		if arePortsFree(address, first) {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row in %d-%d", portsOfCluster, portFirst, portFirst+portCount-1)
}

func arePortsFree(address string, first int) bool {
	for port := first; port < first+portsOfCluster; port++ {
		for _, host := range []string{address, "127.0.0.1"} {
			listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
			if err != nil {
				return false
			}
			listener.Close()
		}
	}
	return true
}

// connectNode gives a node its namespace, joined to the link bridge.
func connectNode(l Layout, n Network, node NodeLayout, nodes int) error {
	namespace := node.namespace()
	inside := []string{"ip", "-n", namespace}
	commands := [][]string{
		{"ip", "netns", "add", namespace},
		{"ip", "link", "add", node.hostLink(), "type", "veth", "peer", "name", "eth0", "netns", namespace},
		{"ip", "link", "set", node.hostLink(), "master", l.linkBridge(), "up"},
		append(inside, "link", "set", "lo", "up"),
		append(inside, "address", "add", n.nodeAddress(node)+"/24", "dev", "eth0"),
		append(inside, "link", "set", "eth0", "up"),
		append(inside, "route", "add", "default", "via", n.APIAddress),
		// The default configuration's pods, from the host and from the other nodes.
		{"ip", "route", "add", n.podCIDR(node), "via", n.nodeAddress(node)},
		{"nsenter", "--net=" + node.namespacePath(), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"},
	}
	for index := 1; index <= nodes; index++ {
		if other := l.node(index); other.Index != node.Index {
			commands = append(commands, append(inside, "route", "add", n.podCIDR(other), "via", n.nodeAddress(other)))
		}
	}
	return runAll(commands)
}

// translateService makes the in-cluster address of the API lead to the API server, for pods (prerouting) and for the
// node's own network (output). One rule instead of kube-proxy, of which a machine can have only one.
func translateService(n Network, namespacePath string) error {
	match := fmt.Sprintf("ip daddr %s tcp dport 443 dnat to %s:%d", n.serviceAddress(), n.APIAddress, n.Ports.APIServer)
	// The API server knows no way back to a pod in a node's namespace: hence the last chain.
	chains := fmt.Sprintf("chain prerouting { type nat hook prerouting priority -100; %s; }\n"+
		"chain output { type nat hook output priority -100; %s; }\n"+
		"chain postrouting { type nat hook postrouting priority 100; ip daddr %s ct status dnat masquerade; }\n",
		match, match, n.APIAddress)
	command := exec.Command("nsenter", "--net="+namespacePath, "nft", "-f", "-")
	command.Stdin = strings.NewReader("table ip berth_e2e {\n" + chains + "}\n")
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return nil
}

// removeNetwork removes whatever of the cluster's network is there, and nothing else.
func removeNetwork(l Layout) error {
	var problems []error
	for index := 1; index <= nodesMax; index++ {
		node := l.node(index)
		if exists(node.namespacePath()) {
			problems = append(problems, run("ip", "netns", "delete", node.namespace()))
		}
		problems = append(problems, removeLink(node.hostLink()))
	}
	return errors.Join(append(problems, removeLink(l.linkBridge()))...)
}

func removeLink(name string) error {
	if !exists("/sys/class/net/" + name) {
		return nil
	}
	err := run("ip", "link", "delete", name)
	if !exists("/sys/class/net/" + name) {
		return nil // its peer's namespace was on its way out and took it along
	}
	return err
}

func runAll(commands [][]string) error {
	for _, command := range commands {
		if err := run(command[0], command[1:]...); err != nil {
			return err
		}
	}
	return nil
}
