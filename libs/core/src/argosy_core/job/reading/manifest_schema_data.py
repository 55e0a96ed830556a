"""What fields the Kubernetes objects of a job have. Written by `tools/manifest_schema.py`; do not edit.

They are those of the OpenAPI document of Kubernetes 1.36.3.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KUBERNETES_VERSION", "SCHEMA"]

KUBERNETES_VERSION: Final = "1.36.3"
"""Release of Kubernetes whose fields these are."""

SCHEMA: Final = """\
AWSElasticBlockStoreVolumeSource fsType:str partition:int readOnly:bool volumeID:str!
Affinity nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
AppArmorProfile localhostProfile:str type:=Localhost|RuntimeDefault|Unconfined!
AzureDiskVolumeSource cachingMode:=None|ReadOnly|ReadWrite diskName:str! diskURI:str! fsType:str
 kind:=Dedicated|Managed|Shared readOnly:bool
AzureFileVolumeSource readOnly:bool secretName:str! shareName:str!
CSIVolumeSource driver:str! fsType:str nodePublishSecretRef:LocalObjectReference readOnly:bool volumeAttributes:{str}
Capabilities add:[str] drop:[str]
CephFSVolumeSource monitors:[str]! path:str readOnly:bool secretFile:str secretRef:LocalObjectReference user:str
CinderVolumeSource fsType:str readOnly:bool secretRef:LocalObjectReference volumeID:str!
ClientIPConfig timeoutSeconds:int
ClusterTrustBundleProjection labelSelector:LabelSelector name:str optional:bool path:str! signerName:str
ConfigMap apiVersion:str binaryData:{str} data:{str} immutable:bool kind:str metadata:ObjectMeta
ConfigMapEnvSource name:str optional:bool
ConfigMapKeySelector key:str! name:str optional:bool
ConfigMapProjection items:[KeyToPath] name:str optional:bool
ConfigMapVolumeSource defaultMode:int items:[KeyToPath] name:str optional:bool
Container args:[str] command:[str] env:[EnvVar] envFrom:[EnvFromSource] image:str
 imagePullPolicy:=Always|IfNotPresent|Never lifecycle:Lifecycle livenessProbe:Probe name:str! ports:[ContainerPort]
 readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy:str
 restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:bool
 stdinOnce:bool terminationMessagePath:str terminationMessagePolicy:=FallbackToLogsOnError|File tty:bool
 volumeDevices:[VolumeDevice/devicePath] volumeMounts:[VolumeMount/mountPath] workingDir:str
ContainerPort containerPort:int! hostIP:str hostPort:int name:str protocol:=SCTP|TCP|UDP
ContainerResizePolicy resourceName:str! restartPolicy:str!
ContainerRestartRule action:str! exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator:str! values:[int]
DownwardAPIProjection items:[DownwardAPIVolumeFile]
DownwardAPIVolumeFile fieldRef:ObjectFieldSelector mode:int path:str! resourceFieldRef:ResourceFieldSelector
DownwardAPIVolumeSource defaultMode:int items:[DownwardAPIVolumeFile]
EmptyDirVolumeSource medium:str sizeLimit:quantity
EnvFromSource configMapRef:ConfigMapEnvSource prefix:str secretRef:SecretEnvSource
EnvVar name:str! value:str valueFrom:EnvVarSource
EnvVarSource configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
 resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
EphemeralContainer args:[str] command:[str] env:[EnvVar] envFrom:[EnvFromSource] image:str
 imagePullPolicy:=Always|IfNotPresent|Never lifecycle:Lifecycle livenessProbe:Probe name:str! ports:[ContainerPort]
 readinessProbe:Probe resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy:str
 restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:bool
 stdinOnce:bool targetContainerName:str terminationMessagePath:str
 terminationMessagePolicy:=FallbackToLogsOnError|File tty:bool volumeDevices:[VolumeDevice/devicePath]
 volumeMounts:[VolumeMount/mountPath] workingDir:str
EphemeralVolumeSource volumeClaimTemplate:PersistentVolumeClaimTemplate
ExecAction command:[str]
FCVolumeSource fsType:str lun:int readOnly:bool targetWWNs:[str] wwids:[str]
FileKeySelector key:str! optional:bool path:str! volumeName:str!
FlexVolumeSource driver:str! fsType:str options:{str} readOnly:bool secretRef:LocalObjectReference
FlockerVolumeSource datasetName:str datasetUUID:str
GCEPersistentDiskVolumeSource fsType:str partition:int pdName:str! readOnly:bool
GRPCAction port:int! service:str
GitRepoVolumeSource directory:str repository:str! revision:str
GlusterfsVolumeSource endpoints:str! path:str! readOnly:bool
HTTPGetAction host:str httpHeaders:[HTTPHeader] path:str port:intstr! scheme:=HTTP|HTTPS
HTTPHeader name:str! value:str!
HTTPIngressPath backend:IngressBackend! path:str pathType:=Exact|ImplementationSpecific|Prefix!
HTTPIngressRuleValue paths:[HTTPIngressPath]!
HostAlias hostnames:[str] ip:str!
HostPathVolumeSource path:str! type:=, |, |, |, |, |, |,
ISCSIVolumeSource chapAuthDiscovery:bool chapAuthSession:bool fsType:str initiatorName:str iqn:str! iscsiInterface:str
 lun:int! portals:[str] readOnly:bool secretRef:LocalObjectReference targetPortal:str!
ImageVolumeSource pullPolicy:=Always|IfNotPresent|Never reference:str
Ingress apiVersion:str kind:str metadata:ObjectMeta spec:IngressSpec status:any
IngressBackend resource:TypedLocalObjectReference service:IngressServiceBackend
IngressRule host:str http:HTTPIngressRuleValue
IngressServiceBackend name:str! port:ServiceBackendPort
IngressSpec defaultBackend:IngressBackend ingressClassName:str rules:[IngressRule] tls:[IngressTLS]
IngressTLS hosts:[str] secretName:str
KeyToPath key:str! mode:int path:str!
LabelSelector matchExpressions:[LabelSelectorRequirement] matchLabels:{str}
LabelSelectorRequirement key:str! operator:str! values:[str]
Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler
 stopSignal:=SIGABRT|SIGALRM|SIGBUS|SIGCHLD|SIGCLD|SIGCONT|SIGFPE|SIGHUP|SIGILL|SIGINT|SIGIO|SIGIOT|SIGKILL|SIGPIPE|SIGPOLL|SIGPROF|SIGPWR|SIGQUIT|SIGRTMAX|SIGRTMAX-1|SIGRTMAX-10|SIGRTMAX-11|SIGRTMAX-12|SIGRTMAX-13|SIGRTMAX-14|SIGRTMAX-2|SIGRTMAX-3|SIGRTMAX-4|SIGRTMAX-5|SIGRTMAX-6|SIGRTMAX-7|SIGRTMAX-8|SIGRTMAX-9|SIGRTMIN|SIGRTMIN+1|SIGRTMIN+10|SIGRTMIN+11|SIGRTMIN+12|SIGRTMIN+13|SIGRTMIN+14|SIGRTMIN+15|SIGRTMIN+2|SIGRTMIN+3|SIGRTMIN+4|SIGRTMIN+5|SIGRTMIN+6|SIGRTMIN+7|SIGRTMIN+8|SIGRTMIN+9|SIGSEGV|SIGSTKFLT|SIGSTOP|SIGSYS|SIGTERM|SIGTRAP|SIGTSTP|SIGTTIN|SIGTTOU|SIGURG|SIGUSR1|SIGUSR2|SIGVTALRM|SIGWINCH|SIGXCPU|SIGXFSZ
LifecycleHandler exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
LocalObjectReference name:str
NFSVolumeSource path:str! readOnly:bool server:str!
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
 requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
NodeSelector nodeSelectorTerms:[NodeSelectorTerm]!
NodeSelectorRequirement key:str! operator:=DoesNotExist|Exists|Gt|In|Lt|NotIn! values:[str]
NodeSelectorTerm matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement]
ObjectFieldSelector apiVersion:str fieldPath:str!
ObjectMeta annotations:{str} creationTimestamp:str deletionGracePeriodSeconds:int deletionTimestamp:str
 finalizers:[str] generateName:str generation:int labels:{str} managedFields:any name:str namespace:str
 ownerReferences:[OwnerReference] resourceVersion:str selfLink:str uid:str
OwnerReference apiVersion:str! blockOwnerDeletion:bool controller:bool kind:str! name:str! uid:str!
PersistentVolumeClaim apiVersion:str kind:str metadata:ObjectMeta spec:PersistentVolumeClaimSpec status:any
PersistentVolumeClaimSpec accessModes:[str] dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
 resources:VolumeResourceRequirements selector:LabelSelector storageClassName:str volumeAttributesClassName:str
 volumeMode:=Block|Filesystem volumeName:str
PersistentVolumeClaimTemplate metadata:ObjectMeta spec:PersistentVolumeClaimSpec!
PersistentVolumeClaimVolumeSource claimName:str! readOnly:bool
PhotonPersistentDiskVolumeSource fsType:str pdID:str!
Pod apiVersion:str kind:str metadata:ObjectMeta spec:PodSpec status:any
PodAffinity preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
 requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodAffinityTerm labelSelector:LabelSelector matchLabelKeys:[str] mismatchLabelKeys:[str]
 namespaceSelector:LabelSelector namespaces:[str] topologyKey:str!
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
 requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodCertificateProjection certificateChainPath:str credentialBundlePath:str keyPath:str keyType:str!
 maxExpirationSeconds:int signerName:str! userAnnotations:{str}
PodDNSConfig nameservers:[str] options:[PodDNSConfigOption] searches:[str]
PodDNSConfigOption name:str value:str
PodOS name:str!
PodReadinessGate conditionType:str!
PodResourceClaim name:str! resourceClaimName:str resourceClaimTemplateName:str
PodSchedulingGate name:str!
PodSchedulingGroup podGroupName:str
PodSecurityContext appArmorProfile:AppArmorProfile fsGroup:int fsGroupChangePolicy:=Always|OnRootMismatch
 runAsGroup:int runAsNonRoot:bool runAsUser:int seLinuxChangePolicy:str seLinuxOptions:SELinuxOptions
 seccompProfile:SeccompProfile supplementalGroups:[int] supplementalGroupsPolicy:=Merge|Strict sysctls:[Sysctl]
 windowsOptions:WindowsSecurityContextOptions
PodSpec activeDeadlineSeconds:int affinity:Affinity automountServiceAccountToken:bool containers:[Container/name]!
 dnsConfig:PodDNSConfig dnsPolicy:=ClusterFirst|ClusterFirstWithHostNet|Default|None enableServiceLinks:bool
 ephemeralContainers:[EphemeralContainer] hostAliases:[HostAlias] hostIPC:bool hostNetwork:bool hostPID:bool
 hostUsers:bool hostname:str hostnameOverride:str imagePullSecrets:[LocalObjectReference]
 initContainers:[Container/name] nodeName:str nodeSelector:{str} os:PodOS overhead:{quantity}
 preemptionPolicy:=Never|PreemptLowerPriority priority:int priorityClassName:str readinessGates:[PodReadinessGate]
 resourceClaims:[PodResourceClaim] resources:ResourceRequirements restartPolicy:=Always|Never|OnFailure
 runtimeClassName:str schedulerName:str schedulingGates:[PodSchedulingGate] schedulingGroup:PodSchedulingGroup
 securityContext:PodSecurityContext serviceAccount:str serviceAccountName:str setHostnameAsFQDN:bool
 shareProcessNamespace:bool subdomain:str terminationGracePeriodSeconds:int tolerations:[Toleration]
 topologySpreadConstraints:[TopologySpreadConstraint] volumes:[Volume/name]
PortworxVolumeSource fsType:str readOnly:bool volumeID:str!
PreferredSchedulingTerm preference:NodeSelectorTerm! weight:int!
Probe exec:ExecAction failureThreshold:int grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds:int
 periodSeconds:int successThreshold:int tcpSocket:TCPSocketAction terminationGracePeriodSeconds:int timeoutSeconds:int
ProjectedVolumeSource defaultMode:int sources:[VolumeProjection]
QuobyteVolumeSource group:str readOnly:bool registry:str! tenant:str user:str volume:str!
RBDVolumeSource fsType:str image:str! keyring:str monitors:[str]! pool:str readOnly:bool
 secretRef:LocalObjectReference user:str
ResourceClaim name:str! request:str
ResourceFieldSelector containerName:str divisor:quantity resource:str!
ResourceRequirements claims:[ResourceClaim] limits:{quantity} requests:{quantity}
SELinuxOptions level:str role:str type:str user:str
ScaleIOVolumeSource fsType:str gateway:str! protectionDomain:str readOnly:bool secretRef:LocalObjectReference!
 sslEnabled:bool storageMode:str storagePool:str system:str! volumeName:str
SeccompProfile localhostProfile:str type:=Localhost|RuntimeDefault|Unconfined!
Secret apiVersion:str data:{str} immutable:bool kind:str metadata:ObjectMeta stringData:{str} type:str
SecretEnvSource name:str optional:bool
SecretKeySelector key:str! name:str optional:bool
SecretProjection items:[KeyToPath] name:str optional:bool
SecretVolumeSource defaultMode:int items:[KeyToPath] optional:bool secretName:str
SecurityContext allowPrivilegeEscalation:bool appArmorProfile:AppArmorProfile capabilities:Capabilities
 privileged:bool procMount:=Default|Unmasked readOnlyRootFilesystem:bool runAsGroup:int runAsNonRoot:bool
 runAsUser:int seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
 windowsOptions:WindowsSecurityContextOptions
Service apiVersion:str kind:str metadata:ObjectMeta spec:ServiceSpec status:any
ServiceAccountTokenProjection audience:str expirationSeconds:int path:str!
ServiceBackendPort name:str number:int
ServicePort appProtocol:str name:str nodePort:int port:int! protocol:=SCTP|TCP|UDP targetPort:intstr
ServiceSpec allocateLoadBalancerNodePorts:bool clusterIP:str clusterIPs:[str] externalIPs:[str] externalName:str
 externalTrafficPolicy:=Cluster|Local healthCheckNodePort:int internalTrafficPolicy:=Cluster|Local ipFamilies:[str]
 ipFamilyPolicy:=PreferDualStack|RequireDualStack|SingleStack loadBalancerClass:str loadBalancerIP:str
 loadBalancerSourceRanges:[str] ports:[ServicePort] publishNotReadyAddresses:bool selector:{str}
 sessionAffinity:=ClientIP|None sessionAffinityConfig:SessionAffinityConfig trafficDistribution:str
 type:=ClusterIP|ExternalName|LoadBalancer|NodePort
SessionAffinityConfig clientIP:ClientIPConfig
SleepAction seconds:int!
StorageOSVolumeSource fsType:str readOnly:bool secretRef:LocalObjectReference volumeName:str volumeNamespace:str
Sysctl name:str! value:str!
TCPSocketAction host:str port:intstr!
Toleration effect:=NoExecute|NoSchedule|PreferNoSchedule key:str operator:=Equal|Exists|Gt|Lt tolerationSeconds:int
 value:str
TopologySpreadConstraint labelSelector:LabelSelector matchLabelKeys:[str] maxSkew:int! minDomains:int
 nodeAffinityPolicy:=Honor|Ignore nodeTaintsPolicy:=Honor|Ignore topologyKey:str!
 whenUnsatisfiable:=DoNotSchedule|ScheduleAnyway!
TypedLocalObjectReference apiGroup:str kind:str! name:str!
TypedObjectReference apiGroup:str kind:str! name:str! namespace:str
Volume awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
 azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource configMap:ConfigMapVolumeSource
 csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource
 fc:FCVolumeSource flexVolume:FlexVolumeSource flocker:FlockerVolumeSource
 gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource glusterfs:GlusterfsVolumeSource
 hostPath:HostPathVolumeSource image:ImageVolumeSource iscsi:ISCSIVolumeSource name:str! nfs:NFSVolumeSource
 persistentVolumeClaim:PersistentVolumeClaimVolumeSource photonPersistentDisk:PhotonPersistentDiskVolumeSource
 portworxVolume:PortworxVolumeSource projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource
 scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource storageos:StorageOSVolumeSource
 vsphereVolume:VsphereVirtualDiskVolumeSource
VolumeDevice devicePath:str! name:str!
VolumeMount mountPath:str! mountPropagation:=Bidirectional|HostToContainer|None name:str! readOnly:bool
 recursiveReadOnly:str subPath:str subPathExpr:str
VolumeProjection clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
 downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection secret:SecretProjection
 serviceAccountToken:ServiceAccountTokenProjection
VolumeResourceRequirements limits:{quantity} requests:{quantity}
VsphereVirtualDiskVolumeSource fsType:str storagePolicyID:str storagePolicyName:str volumePath:str!
WeightedPodAffinityTerm podAffinityTerm:PodAffinityTerm! weight:int!
WindowsSecurityContextOptions gmsaCredentialSpec:str gmsaCredentialSpecName:str hostProcess:bool runAsUserName:str
"""
"""A type a line, what is indented goes on: its name, then FIELD:TYPE; `!` behind it if it must be given. [T] is a list,
[T/KEY] one whose elements differ in KEY, {T} a mapping, =A|B a text of these, a capital another type."""
