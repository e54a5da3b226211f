// Command pause is the only program of the test image: it keeps a pod alive, and it can tell what a pod sees.
//
//	pause              sleeps until SIGTERM or SIGINT
//	pause stay         sleeps until SIGKILL
//	pause addresses    prints the pod's addresses, one per line, with prefix length
//	pause get PATH     prints what the API server answers to GET PATH with the pod's service account, then sleeps;
//	                   ends with 1 if there was no good answer within 30 s
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	patience       = 30 * time.Second
	requestTimeout = 5 * time.Second
	answerBytesMax = 1 << 20
)

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 0:
		sleep()
	case len(arguments) == 1 && arguments[0] == "stay":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		for {
			time.Sleep(time.Hour)
		}
	case len(arguments) == 1 && arguments[0] == "addresses":
		err = printAddresses()
	case len(arguments) == 2 && arguments[0] == "get":
		if err = get(arguments[1]); err == nil {
			sleep()
		}
	default:
		err = fmt.Errorf("usage: pause [stay | addresses | get PATH]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pause:", err)
		os.Exit(1)
	}
}

// sleep ends at once when asked: as process 1 of a container no signal would end it by default.
func sleep() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
}

func printAddresses() error {
	addresses, err := net.InterfaceAddrs()
	for _, address := range addresses {
		fmt.Println(address)
	}
	return err
}

func get(path string) error {
	ca, err := os.ReadFile(filepath.Join(serviceAccount, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	server := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second / 2) {
		err = getOnce(client, "https://"+server+path)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func getOnce(client *http.Client, url string) error {
	token, err := os.ReadFile(filepath.Join(serviceAccount, "token"))
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	fmt.Println(string(body))
	return nil
}
