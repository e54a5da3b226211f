// Certificates and kubeconfigs: one authority for the API and one for etcd, ECDSA P-256, made anew for each cluster.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

const certificateLifetime = 365 * 24 * time.Hour

// Pair is a certificate and its key, both PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject of a certificate: Hosts are names or addresses of a server; without any it is a client's.
type Subject struct {
	User    string
	Groups  []string
	Hosts   []string
	Expired bool // was valid for a day and ended an hour ago
}

func newAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	setLifetime(template, false)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return parseAuthority(der, key)
}

func parseAuthority(der []byte, key *ecdsa.PrivateKey) (*Authority, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return &Authority{Pair: Pair{Cert: encodeCert(der), Key: keyPEM}, cert: cert, key: key}, nil
}

// loadAuthority reads what store wrote.
func loadAuthority(certFile, keyFile string) (*Authority, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("%s, %s: not PEM", certFile, keyFile)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	return parseAuthority(certBlock.Bytes, key)
}

func (a *Authority) sign(subject Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: subject.User, Organization: subject.Groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, host := range subject.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if len(subject.Hosts) > 0 {
		// etcd's gateway calls itself with its server certificate, hence both usages.
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	setLifetime(template, subject.Expired)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := encodeKey(key)
	return Pair{Cert: encodeCert(der), Key: keyPEM}, err
}

func setLifetime(template *x509.Certificate, expired bool) {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	template.SerialNumber = serial
	// An hour back, so that a clock set back a little does not make a fresh cluster unusable.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certificateLifetime)
	if expired {
		template.NotBefore = time.Now().Add(-25 * time.Hour)
		template.NotAfter = time.Now().Add(-time.Hour)
	}
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// store writes name.crt and name.key into folder.
func (p Pair) store(prefix string) error {
	if err := os.WriteFile(prefix+".crt", p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(prefix+".key", p.Key, 0o600)
}

// kubeconfig with everything inside: a single file that may be copied anywhere.
func kubeconfig(server string, ca []byte, user string, client Pair) []byte {
	encode := base64.StdEncoding.EncodeToString
	return kubeconfigText(server, ca, user, fmt.Sprintf("    client-certificate-data: %s\n    client-key-data: %s\n",
		encode(client.Cert), encode(client.Key)))
}

// kubeletKubeconfig names one file with certificate and key for both, as kubeadm's kubelet.conf does.
func kubeletKubeconfig(server string, ca []byte, user, pemFile string) []byte {
	return kubeconfigText(server, ca, user,
		fmt.Sprintf("    client-certificate: %q\n    client-key: %q\n", pemFile, pemFile))
}

func kubeconfigText(server string, ca []byte, user, credentials string) []byte {
	return []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: berth-e2e
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %q
  user:
%scontexts:
- name: berth-e2e
  context:
    cluster: berth-e2e
    user: %q
current-context: berth-e2e
`, server, base64.StdEncoding.EncodeToString(ca), user, credentials, user))
}
