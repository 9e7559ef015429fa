"""Every kind of private value, in several places of a line; and what looks alike and stays."""

from __future__ import annotations

import json

import pytest

from tfgpu_doctor.redact.redaction import Redactor

GITHUB = "ghp_" + "a1B2" * 9
BASE64 = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAABlwAAAAdzc2gt"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
RANDOM = "aZ3kQ9xLm2Pw7RtY" + "8vNc5BdF1GhJ4KsT6UeV0WyX"
HEX40 = "0123456789abcdef" * 2 + "01234567"
RSA = "AAAAB3NzaC1yc2EAAAADAQABAAABgQC7"
ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIJ0"

# what it is: (text, what must vanish, what must stay)
ROWS: dict[str, tuple[str, str, str]] = {
    # ------------------------------------------------------------------------------------------- credentials
    "curl -u": ("curl -u adal:pwxy12 https://github.com/x", "adal pwxy12", "curl -u"),
    "curl --user": ("curl --user adal:pwxy12 ftp", "adal pwxy12", "curl --user"),
    "curl --user=": ("curl --user='adal:pwxy12' ftp", "adal pwxy12", "curl --user="),
    "netrc": ("machine nodehost.acme login adal password pwxy12", "nodehost adal pwxy12", "machine login password"),
    "cookie": ("Cookie: session=abcd1234; theme=dark77", "abcd1234 dark77", "Cookie:"),
    "set-cookie": ("Set-Cookie: sid=abcd1234; Path=/; HttpOnly", "abcd1234", "Set-Cookie:"),
    "curl --cookie": ("curl --cookie sid=abcd1234 x", "abcd1234", "curl"),
    "cookie in JSON": ('{"Cookie": "sid=abcd1234"}', "abcd1234", "Cookie"),
    "private_key_id": ('"private_key_id": "0123456789abcdef77"', "0123456789abcdef77", "private_key_id"),
    "service account": (
        '{"client_email": "bot@acme-ml.iam.gserviceaccount.com", "project_id": "acme-ml"}',
        "bot@ acme-ml",
        "client_email project_id",
    ),
    "password is": ("the password is hunter2x", "hunter2x", "the password is"),
    "passphrase was": ("passphrase was hunter2x", "hunter2x", "passphrase was"),
    "bare AWS secret": (f"aws {AWS_SECRET} us-east-1", AWS_SECRET, "aws us-east-1"),
    "bare random 40": (f"key found {RANDOM} in log", RANDOM, "key found"),
    "line of a key": (BASE64, BASE64, ""),
    "token of three letters": ("token=abc", "abc", "token="),
    "password of two letters": ("password=xy", "xy", "password="),
    "password in quotes": ("password='correct horse'", "correct horse", "password="),
    "camel case": ('{"authToken": "abcd1234"}', "abcd1234", "authToken"),
    "client secret": ("clientSecret: abcd1234", "abcd1234", "clientSecret"),
    "npm": ("//npm.acme.example/:_authToken=abcd1234", "abcd1234", ""),
    "npm auth": ("_auth = YWRhOnB3", "YWRhOnB3", "_auth"),
    "pip index": ("index-url = https://adal:pwxy12@pkgs.acme.example/simple", "adal pwxy12 acme", "index-url"),
    "pypirc": ("username = adal password = pwxy12", "adal pwxy12", "username password"),
    "docker config": ('{"auths": {"registry.acme.io": {"auth": "YWRhOnB3"}}}', "YWRhOnB3 acme", "auths"),
    "identity token": ('"identitytoken": "abcd1234"', "abcd1234", "identitytoken"),
    "docker login": ("docker login -u adal -p pwxy12", "pwxy12", "docker login"),
    "sshpass": ("sshpass -p pwxy12 ssh adal@nodehost", "pwxy12 adal nodehost", "sshpass ssh"),
    "mysql": ("mysql -u root -ppwxy12 db", "pwxy12", "mysql"),
    "kubeconfig": ("client-key-data: LS0tLS1CRUdJTiBS", "LS0tLS1CRUdJTiBS", "client-key-data"),
    "kubeconfig certificate": (
        "certificate-authority-data: LS0tLS1CRUdJTi",
        "LS0tLS1CRUdJTi",
        "certificate-authority-data",
    ),
    "kubeconfig token": ("    token: eyabcd1234", "eyabcd1234", "token:"),
    "connection string": ("postgres://adal:pwxy12@db.acme.io:5432/sales", "adal pwxy12 acme", "postgres://"),
    "ODBC": ("Server=dbhost7;User Id=adal;Password=pwxy12;", "dbhost7 adal pwxy12", "Server= Password="),
    "Azure": ("AccountName=adastore;AccountKey=YWJjZGVm77==;EndpointSuffix=x", "adastore YWJjZGVm77", "AccountName="),
    "Azure bus": ("SharedAccessKeyName=Root;SharedAccessKey=YWJjZGVm77", "YWJjZGVm77", "SharedAccessKeyName"),
    "SAS": (
        "https://adastore.blob.core.windows.net/c/x?sv=2020&sig=abc%2Bdef12345",
        "adastore abc%2Bdef12345",
        "https://",
    ),
    "signed URL": ("https://github.com/a?X-Amz-Signature=abcd1234&x=1", "abcd1234", "github.com"),
    "basic header": ("Authorization: Basic YWRhOnB3", "YWRhOnB3", "Authorization: Basic"),
    "bearer header": ("authorization: bearer abcd1234", "abcd1234", "authorization: bearer"),
    "token header": ("Authorization: token abcd1234", "abcd1234", "Authorization:"),
    "api key header": ("X-Api-Key: abcd1234", "abcd1234", "X-Api-Key"),
    "curl -H": ("curl -H 'X-Auth-Token: abcd1234' x", "abcd1234", "X-Auth-Token"),
    "private token header": ("PRIVATE-TOKEN: abcd1234", "abcd1234", "PRIVATE-TOKEN"),
    "flag": ("train.py --wandb-api-key abcd1234 --epochs 3", "abcd1234", "train.py --epochs 3"),
    "flag=": ("--hf_token=abcd1234 --epochs 3", "abcd1234", "--epochs 3"),
    "W&B": ("WANDB_API_KEY=" + HEX40, HEX40, "WANDB_API_KEY"),
    "Comet": ("COMET_API_KEY = abcd1234", "abcd1234", "COMET_API_KEY"),
    "Kaggle": (
        '{"username":"adal","key":"' + "0123456789abcdef" * 2 + '"}',
        "adal " + "0123456789abcdef" * 2,
        "username key",
    ),
    "MLflow": (
        "MLFLOW_TRACKING_USERNAME=adal MLFLOW_TRACKING_PASSWORD=pwxy12",
        "adal pwxy12",
        "MLFLOW_TRACKING_PASSWORD",
    ),
    "MLflow URI": ("MLFLOW_TRACKING_URI=http://mlhost:5000/teamxy", "mlhost teamxy", "MLFLOW_TRACKING_URI=http://"),
    "conda token": (
        "https://conda.acme.example/t/ad-01234567-89ab-cdef-0123-456789abcdef/acme",
        "01234567-89ab",
        "https",
    ),
    "JSON in JSON": ('{\\"password\\": \\"pwxy12\\"}', "pwxy12", "password"),
    "GitHub": (f"remote: {GITHUB}", GITHUB, "remote"),
    "ssh key": (f"ssh-rsa {RSA}ABCDEFG adal@nodehost", f"{RSA} adal nodehost", "ssh-rsa"),
    "ed25519 key": (f"ssh-ed25519 {ED25519} adal@nodehost", f"{ED25519} adal nodehost", "ssh-ed25519"),
    "fingerprint": ("SHA256:" + "nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8", "nThbg6kXUpJWGl7E1IGO", "SHA256"),
    # ------------------------------------------------------------------------------------------------- names
    "git remote": ("git@git.acme.io:teamxy/repoxy.git", "acme teamxy repoxy", "git@"),
    "git remote, short": ("git clone git@githost:teamxy/repoxy.git", "githost teamxy repoxy", "git clone git@"),
    "scp": ("scp model.h5 adal@filehost:backup-x/", "adal filehost backup-x", "scp"),
    "rsync": ("rsync -a x adal@filehost:/export/home", "adal filehost", "rsync -a"),
    "ssh": ("ssh -p 2222 adal@nodehost nvidia-smi", "adal nodehost", "ssh -p 2222 nvidia-smi"),
    "ssh error": ("ssh: connect to host nodehost port 22: timed out", "nodehost", "port 22"),
    "resolver": ("Could not resolve host: pkgs.acme.io", "pkgs.acme", "Could not resolve host"),
    "resolver, short": ("Could not resolve hostname nodehost: Name or service", "nodehost", "service"),
    "UNC": (r"\\filehost\sharexy\adal\model", "filehost sharexy adal", "model"),
    "UNC, escaped": (r"\\\\filehost\\sharexy\\adal", "filehost sharexy adal", ""),
    "UNC of WSL": (r"\\wsl$\Ubuntu\home\adal\x", "adal", "wsl$ home"),
    "kaggle.json": ('{"username":"adal","key":"hunter2x"}', "adal hunter2x", "username key"),
    "kaggle.json, the key first": ('{"key": "hunter2x", "username": "adal"}', "adal hunter2x", "username key"),
    "kaggle.json in a text": (r"echo {\"username\":\"adal\",\"key\":\"hunter2x\"}", "adal hunter2x", "username key"),
    "CIFS": (
        "//filehost/x /mnt cifs username=adal,password2=hunter2x,domain=CORPXY,uid=1000",
        "adal hunter2x CORPXY",
        "",
    ),
    "mount of CIFS": (
        "mount -t cifs -o user=adal,pass=hunter2x,dom=CORPXY //filehost/x /m",
        "hunter2x CORPXY",
        "pass=",
    ),
    "Samba's workgroup": ("workgroup=CORPXY", "CORPXY", "workgroup="),
    "passkey": ("passkey=hunter2x", "hunter2x", "passkey="),
    "Samba": ("mount -t cifs //filehost/sharexy /mnt", "filehost sharexy", "mount -t cifs /mnt"),
    "full name": ("reached gpu07.cs.adauni.edu today", "gpu07 adauni", "reached today"),
    "full name of two": ("reached adauni.org today", "adauni", "reached today"),
    "full name, German": ("reached knoten3.rz.adauni.de, then", "knoten3 adauni", "reached"),
    "full name and short": ("gpu07ab.cs.adauni.edu calls itself gpu07ab here", "gpu07ab adauni", "calls itself"),
    "pod": ("train-adal-7d9f8b6c5d-x2k9p restarted", "adal 7d9f8b6c5d", "restarted"),
    "job's pod": ("engine-adal-0-xk2p9 failed", "adal", "failed"),
    "daemon's pod": ("engine-adal-feed-xk2p9 failed", "adal", "failed"),
    "pod in quotes": ('pod "engine-adal" failed', "adal", "failed"),
    "~user": ("cd ~adal/x", "adal", "cd"),
    "NFS": ("filer07:/export/home mounted on /mnt", "filer07", "mounted on /mnt"),
    "NFS, named": ("mount -t nfs filehost:/export/home /mnt", "filehost", "mount -t nfs"),
    "Lustre": ("mgs01@tcp:/scratch on /mnt type lustre", "mgs01", "on /mnt type lustre"),
    "registry": ("docker pull registry.acme.io/teamxy/imagexy:1.2", "acme teamxy imagexy", "docker pull :1.2"),
    "registry with port": ("pulled harborhost:5000/teamxy/imagexy:1.2", "harborhost teamxy", "pulled :5000 :1.2"),
    "ECR": ("image: 123456789012.dkr.ecr.eu-west-1.amazonaws.com/teamxy:9", "123456789012 teamxy", "image:"),
    "ACR": ("FROM adareg.azurecr.io/teamxy/base:9", "adareg teamxy", "FROM :9"),
    "bucket": ("https://adabucket.s3.eu-west-1.amazonaws.com/modelxy", "adabucket modelxy", "https://"),
    "bucket, path": ("https://storage.googleapis.com/adabucket/modelxy", "adabucket", "storage.googleapis.com"),
    "S3": ("s3://adabucket/modelxy", "adabucket", "s3://"),
    "syslog": ("Nov 21 10:00:00 nodehost kernel: NVRM: Xid 79", "nodehost", "kernel: NVRM: Xid 79"),
    "syslog, ISO": ("2026-11-21T10:00:00.123456+01:00 nodehost kernel: NVRM: Xid 79", "nodehost", "NVRM: Xid 79"),
    "prompt": ("adal@nodehost:~$ nvidia-smi", "adal nodehost", "nvidia-smi"),
    "root's prompt": ("root@nodehost:/workspace# nvidia-smi", "nodehost", "/workspace# nvidia-smi"),
    "prompt of zsh": ("adal@nodehost ~ % nvidia-smi", "adal nodehost", "nvidia-smi"),
    "prompt in brackets": ("[adal@nodehost ~]$ nvidia-smi", "adal nodehost", "nvidia-smi"),
    "id": ("uid=1000(adal) gid=1000(adal) groups=27(sudo)", "adal", "uid=1000"),
    "ls": ("-rw-r--r-- 1 adal adal 12 Nov 21 10:00 x.py", "adal", "-rw-r--r--"),
    "gpustat": ("| 1000 / 40000 MB | adal(900M) adal:python/12(30M)", "adal", "40000 MB"),
    "W&B login": ("wandb: Currently logged in as: adal (acmeteam)", "adal acmeteam", "wandb: Currently logged in as"),
    "sudo": ("sudo -u adal nvidia-smi", "adal", "sudo nvidia-smi"),
    "domain user": (r"owner: ACME\adal", "adal", "owner"),
    "Hydra": ("train.py user=adal lr=0.1", "adal", "train.py lr=0.1"),
    "user in JSON": ('{"user": "adal", "n": 1}', "adal", '"n"'),
    "macOS": ("/Users/adal/plansxy.h5", "adal plansxy", "/Users/ .h5"),
    "Slurm account": ("sbatch --account=acmelab --partition gpuq7x run.sh", "acmelab gpuq7x", "sbatch"),
    "kubectl": ("kubectl get pods -n acme-prod", "acme-prod", "kubectl get pods"),
    "interface": ("NCCL_SOCKET_IFNAME=ethcorp0", "ethcorp0", "NCCL_SOCKET_IFNAME"),
    "cloud project": ("GOOGLE_CLOUD_PROJECT=acme-ml", "acme-ml", "GOOGLE_CLOUD_PROJECT"),
    # --------------------------------------------------------------------------------------------- addresses
    "e-mail": ("ada.l@acme.example", "ada.l acme", ""),
    "e-mail, IDN": ("adal@bücher-müller.example", "adal bücher müller", ""),
    "e-mail, punycode": ("adal@acme.xn--p1ai", "adal acme", ""),
    "e-mail in angles": ("Ada <adal@acme.example>", "adal acme", ""),
    "MAC": ("4c:cc:6a:12:34:56", "4c:cc", ""),
    "MAC of Windows": ("4C-CC-6A-12-34-56", "4C-CC", ""),
    "MAC of Cisco": ("4ccc.6a12.34ef", "4ccc", ""),
    "IPv6 with a zone": ("fe80::4ecc:6aff:fe12:3456%enp3s0", "fe80 3456", ""),
    "IPv6 in brackets": ("[2001:db8::5:1]:2222", "2001", ""),
    "phone": ("+49 170 1234567", "170 1234567", ""),
    "phone, American": ("+1 (555) 123-4567", "555 123", ""),
}
PLACES = ("{}", "2026-11-21 10:00:00 INFO step 7: {}", "{} (see above)", "note {}, then")
# only where they are all of a line
LINES = {
    "pgpass": ("dbhost.acme:5432:sales:adal:pwxy12", "pwxy12", ""),
    "netrc's password": ("    password pwxy12", "pwxy12", "password"),
    "netrc's login": ("    login adal", "adal", "login"),
    "netrc's machine": ("machine nodehost", "nodehost", "machine"),
}

STAYS = (
    "com/x org/y edu: io . .com @com a.com( .. ./. com.",
    "sshpass -p $PW ssh -p 2222 localhost",
    "password is required; the token is invalid; password: none; token = None, api_key: null",
    "SECRET=$MY_SECRET --token ${{ secrets.TOKEN }} password=%PW% password=****",
    "pad_token=0 eos_token: </s> bos_token='<s>' max_token=512 unexpected token: foo",
    "docker run -u 1000:1000 --gpus all -p 8888:8888 tensorflow/tensorflow:latest-gpu",
    "python -u train.py; pip install -U pip",
    "nvcr.io/nvidia/tensorflow:24.03-tf2-py3 docker.io/tensorflow/tensorflow ghcr.io/x/y:1 quay.io/jupyter/z",
    "gcr.io/a/b:2 mcr.microsoft.com/devcontainers/python:3.12 k8s.gcr.io/pause:3.9 registry.k8s.io/pause:3.9",
    "git@github.com:tensorflow/tensorflow.git https://github.com/tensorflow/tensorflow/issues/1",
    f"commit {HEX40} sha256:{HEX40}{HEX40[:24]}",
    "_ZNK10tensorflow8OpKernel11TraceStringB5cxx11ERKNS_15OpKernelContextEb undefined symbol",
    "_ZN10tensorflow6StatusC1EN4absl12lts_2023012510StatusCodeENSt3__117basic_string_viewIcNS4_11char_traitsIcEEEE",
    "tensorflow.python.framework.errors_impl google.protobuf.internal np.random.it self.queue.io tf.io.gfile keras.src",
    "threading.local() tensorflow.python.lib.io.file_io tf.compat.v1.estimator.train.py libcudart.so.12 model.net",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/local/cuda-12.4/lib64:/usr/lib ./configure file.cu.cc:12:5: error",
    "LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/lib libcuda.so.1:/usr/lib error:/usr/lib python3:/usr/bin",
    "//tensorflow/core:lib @local_config_cuda//cuda:cuda_headers // a comment //tools/toolchains",
    "nvidia-cublas-cu12-12.5.3.2 tensorflow-cpu-aws linux-x86_64 nvidia-driver-535 nvidia-cuda-toolkit-gcc",
    "memcpy@GLIBC_2.14 cuda@12.4 actions/checkout@v4 pkg@1.2.3 @tf.function",
    "2.15.0+cu118 1.0.0rc1 12.4.131 535.113.01",
    "cuDNN 9.3.0.75, 0000:65:00.0, 00000000:17:00.0, 10de:2684, sm_89, compute_90a",
    "NVIDIA GeForce RTX 4090, Tesla V100-SXM2-32GB, NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    "/job:localhost/replica:0/task:0/device:GPU:0 /physical_device:GPU:0 XLA_GPU:0",
    "C++ std::vector<int>::at a::b ~Foo() ~=1.2 numpy~=1.26",
    r"error\nfoo \\n\\nbar \\.\pipe",
    "epoch:10/steps step:100/2000 loss: 0.1234 +0x12 +00:00 2026-11-21T10:00:00+01:00 offset +12345678",
    "NCCL_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=^docker0,lo NCCL_SOCKET_IFNAME=ib0",
    "signature: (TensorSpec(shape=(None, 3), dtype=tf.float32)) sig: 11 primary_key = 5 key: value",
    "-rwxr-xr-x 1 root root 12 Nov 21 10:00 libcuda.so.1 uid=0(root)",
    "Package numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE",
    "https://storage.googleapis.com/tensorflow/linux/gpu/tensorflow_gpu-2.10.0.whl",
)


@pytest.mark.parametrize("kind", ROWS)
def test_a_kind_of_private_value_vanishes(kind: str) -> None:
    text, private, public = ROWS[kind]
    for place in PLACES:
        _check(place.format(text), private, public)
    _check(json.dumps({"a": text}), private, public.replace('"', ""))


@pytest.mark.parametrize("kind", LINES)
def test_a_line_of_its_own_vanishes(kind: str) -> None:
    text, private, public = LINES[kind]
    _check(text, private, public)
    _check(f"first\n{text}\nlast", private, public)


def _check(text: str, private: str, public: str) -> None:
    once = Redactor((text,)).text(text)
    assert [part for part in private.split() if part in once] == [], once
    assert [part for part in public.split() if part not in once] == [], once
    assert Redactor((once,)).text(once) == once


@pytest.mark.parametrize("text", STAYS)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert Redactor((text,)).text(text) == text


@pytest.mark.parametrize("end", ["-----END RSA PRIVATE KEY-----", "step 7", ""])
def test_a_private_key_vanishes_from_a_log_of_lines(end: str) -> None:
    lines = (
        "step 6",
        "-----BEGIN RSA PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED",
        BASE64,
        BASE64[:40],
        "AAAABBBB==",
        end,
    )
    after = Redactor(lines).apply(lines)
    assert not {"Proc-Type: 4,ENCRYPTED", BASE64, BASE64[:40], "AAAABBBB=="} & set(after)
    assert (after[0], after[-1]) == (lines[0], end)
    assert Redactor(after).apply(after) == after
