// Certificates: verified the way their servers and clients do.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
	"time"
)

func verify(
	t *testing.T, authority *Authority, subject Subject, options x509.VerifyOptions,
) (*x509.Certificate, error) {
	t.Helper()
	pair, err := authority.sign(subject)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	options.Roots = x509.NewCertPool()
	options.Roots.AppendCertsFromPEM(authority.Cert)
	_, err = certificate.Leaf.Verify(options)
	return certificate.Leaf, err
}

func TestCertificatesDoWhatTheyAreFor(t *testing.T) {
	authority, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	cases := []struct {
		name    string
		subject Subject
		options x509.VerifyOptions
		good    bool
	}{
		{"ClientAsClient", Subject{User: "u"}, x509.VerifyOptions{KeyUsages: client}, true},
		{"ClientAsServer", Subject{User: "u"}, x509.VerifyOptions{KeyUsages: server}, false},
		{"ExpiredClient", Subject{User: "u", Expired: true}, x509.VerifyOptions{KeyUsages: client}, false},
		{"ExpiredClientInItsTime", Subject{User: "u", Expired: true},
			x509.VerifyOptions{KeyUsages: client, CurrentTime: time.Now().Add(-2 * time.Hour)}, false}, // the CA is younger
		{"ServerByAddress", Subject{User: "s", Hosts: []string{"198.18.0.1"}},
			x509.VerifyOptions{DNSName: "198.18.0.1", KeyUsages: server}, true},
		{"ServerByName", Subject{User: "s", Hosts: []string{"n1"}},
			x509.VerifyOptions{DNSName: "n1", KeyUsages: server}, true},
		{"ServerByAnotherName", Subject{User: "s", Hosts: []string{"n1"}},
			x509.VerifyOptions{DNSName: "n2", KeyUsages: server}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := verify(t, authority, c.subject, c.options); (err == nil) != c.good {
				t.Errorf("verification: %v, want success %v", err, c.good)
			}
		})
	}
}

func TestUserAndGroupsAreInTheCertificate(t *testing.T) {
	authority, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := verify(t, authority, Subject{User: "system:node:n7", Groups: []string{"system:nodes", "x"}},
		x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.CommonName != "system:node:n7" || len(leaf.Subject.Organization) != 2 {
		t.Errorf("got %v", leaf.Subject)
	}
}

func TestAStoredAuthoritySignsOn(t *testing.T) {
	authority, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(t.TempDir(), "ca")
	if err := authority.store(prefix); err != nil {
		t.Fatal(err)
	}
	loaded, err := loadAuthority(prefix+".crt", prefix+".key")
	if err != nil {
		t.Fatal(err)
	}
	if string(loaded.Cert) != string(authority.Cert) {
		t.Error("another certificate came back")
	}
	client := x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := verify(t, loaded, Subject{User: "u"}, client); err != nil {
		t.Error(err)
	}
}
