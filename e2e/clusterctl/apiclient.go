// APIClient asks the cluster's API server whether things are ready; it is no general client.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	pollInterval   = 50 * time.Millisecond
	requestTimeout = 5 * time.Second
	answerBytesMax = 4 << 20
)

// APIClient has the administrator's rights.
type APIClient struct {
	server string
	http   *http.Client
}

func newAPIClient(l Layout, server string) (*APIClient, error) {
	authority, err := loadAuthority(l.pki("ca.crt"), l.pki("ca.key"))
	if err != nil {
		return nil, err
	}
	pair, err := authority.sign(Subject{User: "berth-e2e-supervisor", Groups: []string{"system:masters"}})
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	return &APIClient{server: server, http: &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

// get reads url, a path of the API server or a whole address, into object unless that is nil.
func (c *APIClient) get(ctx context.Context, url string, object any) error {
	return c.send(ctx, http.MethodGet, url, "", object)
}

// patch changes the object at path by a merge patch (RFC 7386).
func (c *APIClient) patch(ctx context.Context, path, patch string) error {
	return c.send(ctx, http.MethodPatch, path, patch, nil)
}

func (c *APIClient) send(ctx context.Context, method, url, patch string, object any) error {
	if strings.HasPrefix(url, "/") {
		url = c.server + url
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(patch))
	if err != nil {
		return err
	}
	if patch != "" {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, url, response.Status)
	}
	if object == nil {
		return nil
	}
	return json.Unmarshal(body, object)
}

// checkFunc is nil once the thing is ready, else what it still lacks.
type checkFunc func(context.Context) error

// await polls until check succeeds. It ends early with the child's last words if the child ends.
func await(ctx context.Context, what string, timeout time.Duration, child *Child, check checkFunc) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, os.ErrDeadlineExceeded)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		if last = check(ctx); last == nil {
			return nil
		}
		select {
		case <-child.ended:
			return fmt.Errorf("%s has ended (%v); the end of %s:\n%s", child.name, child.result, child.log, child.lastLines())
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), os.ErrDeadlineExceeded) {
				return fmt.Errorf("%s not ready after %s: %w; see %s", what, timeout, last, child.log)
			}
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
