// Options: the command line. Unknown words are refused with what would be right.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Options of all commands together; each uses its part.
type Options struct {
	command string
	layout  Layout

	nodes         int
	audit         bool
	fsync         bool
	cniConf       string // a file, "" for the default, or noNetwork
	cniPlugins    bool
	images        []string
	apiserverArgs []string

	process string // of stop and start; the node, of mounts
	kill    bool

	user    string
	groups  []string
	expired bool
	out     string
}

// noNetwork is the value of --cni-conf that leaves nodes without a network configuration.
const noNetwork = "none"

var commands = []string{"up", "env", "down", "stop", "start", "stop-apiserver", "start-apiserver", "kubeconfig",
	"build", "supervise", "mounts"}

func parseOptions(arguments []string) (Options, error) {
	options := Options{command: arguments[0]}
	if slices.Contains(arguments, "--help") || slices.Contains(arguments, "-h") || options.command == "help" {
		options.command = "help"
		return options, nil
	}
	if !slices.Contains(commands, options.command) {
		return options, fmt.Errorf("unknown command %q; see e2e/cluster --help", options.command)
	}
	if verb, ok := strings.CutSuffix(options.command, "-apiserver"); ok {
		options.command, options.process = verb, "kube-apiserver"
	}
	dir := ""
	values := map[string]func(string) error{
		"--dir":           func(v string) error { dir = v; return nil },
		"--nodes":         options.setNodes,
		"--cni-conf":      func(v string) error { options.cniConf = v; return nil },
		"--image":         func(v string) error { options.images = append(options.images, v); return nil },
		"--apiserver-arg": func(v string) error { options.apiserverArgs = append(options.apiserverArgs, v); return nil },
		"--user":          func(v string) error { options.user = v; return nil },
		"--group":         func(v string) error { options.groups = append(options.groups, v); return nil },
		"--out":           func(v string) error { options.out = v; return nil },
	}
	switches := map[string]*bool{"--audit": &options.audit, "--fsync": &options.fsync, "--kill": &options.kill,
		"--expired": &options.expired, "--cni-plugins": &options.cniPlugins}
	for rest := arguments[1:]; len(rest) > 0; {
		name, value, inline := strings.Cut(rest[0], "=")
		rest = rest[1:]
		if set, ok := switches[name]; ok && !inline {
			*set = true
			continue
		}
		set, ok := values[name]
		if !ok {
			takesProcess := slices.Contains([]string{"stop", "start", "mounts"}, options.command)
			if takesProcess && options.process == "" && !strings.HasPrefix(name, "-") {
				options.process = name
				continue
			}
			return options, fmt.Errorf("unknown option %q of %s; see e2e/cluster --help", name, arguments[0])
		}
		if !inline {
			if len(rest) == 0 {
				return options, fmt.Errorf("%s needs a value", name)
			}
			value, rest = rest[0], rest[1:]
		}
		if err := set(value); err != nil {
			return options, err
		}
	}
	return options, options.complete(dir)
}

func (o *Options) setNodes(value string) error {
	nodes, err := strconv.Atoi(value)
	if err != nil || nodes < 0 || nodes > nodesMax {
		return fmt.Errorf("--nodes %q: must be 0 to %d", value, nodesMax)
	}
	o.nodes = nodes
	return nil
}

func (o *Options) complete(dir string) error {
	if o.command == "build" {
		return nil
	}
	if dir == "" {
		return fmt.Errorf("%s needs --dir DIR, the cluster's folder", o.command)
	}
	if (o.command == "stop" || o.command == "start") && o.process == "" {
		return fmt.Errorf("%s needs the name of a process, e.g. kube-apiserver", o.command)
	}
	if o.command == "kubeconfig" && o.user == "" {
		return fmt.Errorf("kubeconfig needs --user USER")
	}
	var err error
	o.layout, err = newLayout(dir)
	return err
}

// supervisorArguments are what parseOptions makes the same options of again, for the supervisor.
func (o Options) supervisorArguments() []string {
	arguments := []string{"supervise", "--dir=" + o.layout.Dir, "--nodes=" + strconv.Itoa(o.nodes)}
	if o.audit {
		arguments = append(arguments, "--audit")
	}
	if o.fsync {
		arguments = append(arguments, "--fsync")
	}
	if o.cniConf != "" {
		arguments = append(arguments, "--cni-conf="+o.cniConf)
	}
	for _, image := range o.images {
		arguments = append(arguments, "--image="+image)
	}
	for _, argument := range o.apiserverArgs {
		arguments = append(arguments, "--apiserver-arg="+argument)
	}
	return arguments
}

// writeKubeconfig signs a client certificate with the cluster's authority.
func writeKubeconfig(options Options) error {
	record, err := readRecord(options.layout)
	if err != nil {
		return explainMissing(options.layout, err)
	}
	if record.Existing {
		return fmt.Errorf("%s uses an existing cluster, whose authority's key is not here", options.layout.Dir)
	}
	authority, err := loadAuthority(options.layout.pki("ca.crt"), options.layout.pki("ca.key"))
	if err != nil {
		return err
	}
	pair, err := authority.sign(Subject{User: options.user, Groups: options.groups, Expired: options.expired})
	if err != nil {
		return err
	}
	text := kubeconfig(record.Server, authority.Cert, options.user, pair)
	if options.out == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return writeFileAtomically(options.out, text, 0o600)
}

func explainMissing(l Layout, err error) error {
	if err == errNoCluster {
		return fmt.Errorf("no cluster in %s: start one with e2e/cluster up --dir %s", l.Dir, l.Dir)
	}
	return err
}

// quoteShell makes one word of any text, for a POSIX shell.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// quoteJSON makes a string literal, which is valid in TOML and YAML, too.
func quoteJSON(text string) string {
	literal, _ := json.Marshal(text)
	return string(literal)
}
