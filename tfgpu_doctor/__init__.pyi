from tfgpu_doctor.commands import TfgpuError as TfgpuError
from tfgpu_doctor.commands import UsageError as UsageError
from tfgpu_doctor.commands import bench as bench
from tfgpu_doctor.commands import check as check
from tfgpu_doctor.commands import compare as compare
from tfgpu_doctor.commands import diagnose as diagnose
from tfgpu_doctor.commands import explain as explain
from tfgpu_doctor.commands import plan as plan

def load_ipython_extension(shell: object) -> None: ...

__version__: str
