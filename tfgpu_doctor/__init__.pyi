from tfgpu_doctor.api.errors import TfgpuError as TfgpuError
from tfgpu_doctor.api.errors import UsageError as UsageError
from tfgpu_doctor.api.functions import bench as bench
from tfgpu_doctor.api.functions import check as check
from tfgpu_doctor.api.functions import compare as compare
from tfgpu_doctor.api.functions import diagnose as diagnose
from tfgpu_doctor.api.functions import explain as explain
from tfgpu_doctor.api.functions import plan as plan

def load_ipython_extension(shell: object) -> None: ...

__version__: str
