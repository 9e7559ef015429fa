"""How people tell that a GPU is slow, and what surrounds it: times, loads, clocks, the shape of the work.

Sources: the words of user reports on TensorFlow, Keras and NVIDIA's forums; nvidia-smi's columns; Keras' recurrent
layers, which say when they cannot use cuDNN.
"""

from __future__ import annotations

from tfgpu_doctor.parsers.messages.template import template

_GPU = r"(?:GPUs?\b|tensorflow-gpu\b|(?:GTX|RTX) ?\d{3,4}\b)"
_CPU = r"(?:the |my |on |using |with |a |it |training |running |in |tensorflow |only ){0,6}-?CPU"
_WORSE = (
    r"(?:slower|slowly|worse|poorer|less performant|not (?:\w+ ){0,2}faster|no faster|isn't (?:any )?faster"
    r"|longer|more time)"
)
_BETTER = r"(?:faster|quicker|better|less time|shorter)"
_TIME = r"(?:about |around |approx\.? |only |under |over |roughly |~ ?|< ?|> ?)?"
_UNIT = r"(?:ms|msec|milliseconds?|s|secs?|seconds?|min|mins|minutes?|h|hrs?|hours?)"
# "CPU alone: under 10 ms", "on the GPU it takes 35 s"
_COST = (
    r"(?: alone| only| version| time| training| mode)?(?: ?\([\w ]{1,20}\))?"
    r"(?: (?:it |which |training )?(?:takes?|took|needs?|needed))?"
    rf" ?[:=(~-]* ?{_TIME}"
)
_LOW = r"(?:[0-4]?\d(?:\.\d+)?)(?: ?(?:-|to|~) ?\d{1,2}(?:\.\d+)?)? ?%"
_STUCK = (
    r"(?:stuck|stays?|staying|remains?|locked|sits?|limited|capped|never (?:goes|gets|rises) (?:above|over|beyond))"
)

TEMPLATES = (
    template(
        "slow",
        "slower|slowly|worse|faster|longer|more time|quicker|less time|same time|same speed|same training|"
        "difference in|speedup|speed up|speed-up|improvement",
        rf"{_GPU}[^.;\n]{{0,60}}\b{_WORSE} than (?:{_CPU}|numpy\b)"
        rf"|{_GPU} (?:version|training|run|one)? ?(?:is |was |runs )?(?:about |around )?\d{{1,3}}(?:\.\d)? ?"
        r"(?:x|times) slower"
        rf"|\b(?:slower|longer|more time) than (?:\w+ ){{0,6}}{_CPU}\b"
        rf"|CPU\b[^.;\n]{{0,60}}\b{_BETTER} than[^.;\n]{{0,30}}{_GPU}"
        rf"|\b{_BETTER}\b[^.;\n]{{0,40}}\bCPU\b[^.;\n]{{0,30}}\bthan\b[^.;\n]{{0,30}}{_GPU}"
        rf"|\b(?:slower|longer)\b[^.;\n]{{0,30}}\b(?:on|with|using)\b[^.;\n]{{0,20}}{_GPU}[^.;\n]{{0,30}}\bthan\b"
        r"|\bsame (?:\w+ )?(?:speed|time|performance|duration)\b[^.;\n]{0,40}\b(?:CPU"
        r"|GPU)\b[^.;\n]{0,30}\b(?:CPU|GPU)"
        r"|\bdifference\b[^.;\n]{0,20}\b(?:CPU and|CPU vs\.?|GPU and|GPU vs\.?) (?:the )?[CG]PU (?:is|was)"
        r" (?:\w+ ){0,2}(?:small|little|tiny)"
        r"|\bno (?:real |significant |noticeable )?(?:difference|speed[- ]?up|improvement|gain)\b[^.;\n]{0,30}"
        r"\b(?:CPU|GPU)\b[^.;\n]{0,20}\b(?:CPU|GPU)\b",
    ),
    # what either device takes, in one line or in two
    template(
        "time-on-both",
        "cpu",
        rf"\bCPU\b\"?'?\)?(?::0['\")]*)?{_COST}(?P<cpu>\d{{1,6}}(?:\.\d+)?) ?(?P<cpu_unit>{_UNIT})\b.{{0,60}}?"
        rf"\bGPU\b(?::0['\")]*)?{_COST}(?P<gpu>\d{{1,6}}(?:\.\d+)?) ?(?P<gpu_unit>{_UNIT})\b",
        role="context",
    ),
    template(
        "low-utilization",
        "占用|利用率|使用率|util|uses only|using only|only using|only uses|of gpu|of the gpu|of my gpu|gpu: |sm ",
        rf"{_GPU}[^.\n]{{0,40}}\butil\w*[ :=]{{0,3}}(?:is |are |of |at |around |about |only |~ ?){{0,4}}{_LOW}"
        rf"|{_GPU} (?:is )?(?:only )?(?:being )?(?:used|utili[sz]ed|uses|using) (?:only |about |around |at "
        rf"|just ){{0,3}}{_LOW}"
        rf"|(?:GPU|显卡) ?(?:占用|利用率|使用率)[^，。%]{{0,8}}?{_LOW}"
        rf"|\b(?:only|just|about|around)? ?{_LOW} of (?:the |my |its )?{_GPU}"
        rf"|^\W*(?:GPU )?util\w*[ :=]{{1,3}}(?:about |around |only |~ ?){{0,3}}{_LOW}",
    ),
    # layers whose steps follow one another, learning that asks after each step, and networks of a few neurons
    template(
        "small-model",
        "lstm|gru|rnn|dqn|q-learning|reinforcement|cartpole|gym.make|mlp|small network|small model|tiny|few neurons|"
        "dense(|fully_connected(|batch size 1|batch size of 1|custom loop",
        r"\b(?P<layer>(?:layers\.)?(?:LSTM|GRU|SimpleRNN|RNN)\(|\bLSTMs?\b|\bGRUs?\b|BasicLSTMCell)"
        r"|\b(?:DQN|Q-learning|reinforcement learning|CartPole|gym\.make)\b"
        r"|\b(?:small|tiny|simple|little|shallow) (?:\w+ ){0,2}(?:network|model|net|MLP|NN)\b|\bfew neurons\b"
        r"|\bMLP\b|\b(?:Dense|fully_connected)\([^)\n]{0,40}?\b(?P<width>\d{1,3})\b|batch size (?:of )?1\b",
        role="context",
    ),
    template(
        "no-cudnn-kernel",
        "will not use cudnn kernel",
        r"Layer \S{1,80} will not use cuDNN kernels? since it (?:doesn't|does not) meet the (?:cuDNN kernel"
        r" )?criteria",
        role="context",
    ),
    template(
        "input-bottleneck",
        " nas |on nas| nfs|workers=|over smb|network drive|network share|pil open|image.open|cv2.|imread"
        "|pd.read_|read_csv|read_pickle|pickle.load|np.load|opencv|tf.data instead|nfs|num_workers|"
        "shuffle buffer|py_function|py_func|numpy_function|preprocess|decode_jpeg|loading data|loading and|load data|"
        "on_train_batch_begin|input_fn|queue_runners|hdf5|h5py",
        r"\b(?:on|from|over) (?:the |a |an |our )?(?:\w+ )?(?:NAS|NFS|SMB|network (?:drive|share|storage))\b"
        r"|\bNFS over\b|\bworkers ?= ?[01]\b"
        r"|\bPIL open|\bImage\.open\("
        r"|\b(?:cv2\.imread|imread\(|pd\.read_\w+\(|read_csv\(|pickle\.load|np\.load\(|h5py\.|import h5py"
        r"|tf\.py_func\w*|tf\.numpy_function|pandas_input_fn|numpy_input_fn|decode_jpeg|start_queue_runners)"
        r"|Filling up shuffle buffer|Method \(on_train_batch_begin\) is slow compared"
        r"|\b(?:use|to|of) tf\.data (?:instead|rather)|\bread(?:ing)? (?:\w+ ){0,3}(?:from|over) (?:an? )?"
        r"(?:NFS|NAS|HDD)"
        r"|\bload(?:ing|s)? (?:and \w+ )?(?:the |my )?(?:data|images|batch\w*)\b|warnings? to use tf\.data",
    ),
    template(
        "cpu-busy",
        "cpu|core",
        r"\b(?:all )?(?:\w+ )?(?:CPUs?|cores?)\b[^.;\n%]{0,40}?\b(?:100|[1-9]\d{2,3}) ?%"
        r"|\ball (?:\w+ ){0,2}(?:CPUs|cores)(?: are)? (?:busy|at 100)",
        role="context",
    ),
    # a row of --query-gpu, and one of the table: a state for little work under full load
    template(
        "low-clocks",
        "p5|p6|p7|p8|p10|p12|p15",
        r"(?:^|, ?)P(?P<state>[5-8]|1[0-5])(?:, ?[^,\n]{1,40}){0,10}, ?(?P<load>[89]\d|100) ?%"
        r"|(?:^|, ?)(?P<busy>[89]\d|100) ?%(?:, ?[^,\n]{1,40}){0,10}, ?P(?P<low>[5-8]|1[0-5])\b"
        r"|\| +\S{1,5} +\d{1,3}C +P(?P<row>[5-8]|1[0-5]) [^|\n]{0,30}\|[^|\n]{0,40}\| +(?P<full>[89]\d|100)% ",
    ),
    template(
        "slower-with-time",
        "slower",
        r"\b(?:gets?|getting|got|becom\w+|grows?|runs?) (?:\w+ ){0,2}?slower (?:and slower|with time|over time"
        r"|as (?:time|training)|with (?:every|each) (?:epoch|step)|after (?:a while|some time|(?:a )?few))",
    ),
)
